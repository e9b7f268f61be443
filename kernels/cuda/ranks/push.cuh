// Code shared by the kernels that send to other GPUs.
#ifndef BOLE_KERNELS_CUDA_RANKS_PUSH_CUH_
#define BOLE_KERNELS_CUDA_RANKS_PUSH_CUH_

#include <cstdint>

#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {

// Loads 16 bytes that another GPU may be writing: never from this
// multiprocessor's L1, and the compiler never removes the load.
__device__ inline uint4 LoadShared(const uint4* from) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}
__device__ inline void StoreShared(uint4* to, const uint4& v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// Counts between ranks: a thread that reads a count sees what was written
// before it.
__device__ inline uint64_t LoadCount(const uint64_t* count) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(count)
               : "memory");
  return value;
}
__device__ inline void AddToCount(uint64_t* count, uint64_t amount) {
  asm volatile("red.release.sys.global.add.u64 [%0], %1;"
               :
               : "l"(count), "l"(amount)
               : "memory");
}

// A rank's own counts: the order of its kernels orders the accesses, at no
// cost.
__device__ inline uint64_t LoadOwnCount(const uint64_t* count) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(count));
  return value;
}
__device__ inline void AddToOwnCount(uint64_t* count, uint64_t amount) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;"
               :
               : "l"(count), "l"(amount)
               : "memory");
}

__device__ inline uint64_t Nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__device__ inline PushCounts* CountsOf(const PushGroup& group, int rank) {
  return reinterpret_cast<PushCounts*>(group.arena[rank] +
                                       CountsOffset(group.count));
}

// What this block adds to a count for its part of a call. All blocks together
// add kCallUnits.
__device__ inline uint64_t BlockUnits() {
  const bool is_first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
  const uint64_t blocks = uint64_t{gridDim.x} * gridDim.y * gridDim.z;
  return is_first ? kCallUnits - (blocks - 1) : 1;
}

// Measures how long a thread has waited for another rank, at most `times` the
// group's patience.
class Patience {
 public:
  __device__ explicit Patience(unsigned times = 1) : times_(times) {}

  // Whether to give up, which every thread of this rank does from then on. To
  // be called each time that nothing has arrived.
  __device__ bool IsOver(const PushGroup& group, int missing) {
    constexpr uint32_t kBetweenLooks = 1024;
    if (++num_looks_ % kBetweenLooks != 0) return false;
    auto* failed = static_cast<volatile uint32_t*>(
        &CountsOf(group, group.rank)->has_failed);
    if (*failed != 0) return true;
    const uint64_t now = Nanoseconds();
    if (since_ == 0) since_ = now;
    if (now - since_ < times_ * group.patience) return false;
    static_cast<volatile PushFailure*>(group.failure)->missing = missing + 1;
    __threadfence_system();
    *failed = 1;
    return true;
  }

 private:
  const unsigned times_;
  uint32_t num_looks_ = 0;
  uint64_t since_ = 0;
};

// Waits until counts[r] >= least, for every rank r. The whole block calls it.
__device__ inline void WaitForRanks(const PushGroup& group,
                                    const uint64_t* counts, uint64_t least) {
  const int r = static_cast<int>(threadIdx.x);
  if (r < group.count) {
    Patience patience;
    while (LoadCount(counts + r) < least && !patience.IsOver(group, r)) {
    }
  }
  __syncthreads();
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_PUSH_CUH_
