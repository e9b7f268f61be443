// A ring of stages in shared memory between threads that load and the warps
// that compute (mbarrier; sm_90 and later).
#ifndef BOLE_KERNELS_CUDA_PREFILL_CHUNK_RING_CUH_
#define BOLE_KERNELS_CUDA_PREFILL_CHUNK_RING_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/prefill/chunk_tiles.cuh"

namespace bole::cuda {

#if __CUDA_ARCH__ >= 900

// Item i is in stage i % kStages. There are kLoaders loading threads and
// kReaders reading warps.
template <int kStages, int kLoaders, int kReaders>
class Ring {
 public:
  // Called by one thread; a barrier of the block must follow.
  __device__ void Init() {
    for (int i = 0; i < kStages; ++i) {
      // One arrival for every thread's own copies, and one for the copy
      // engine's.
      Init(full_[i], kLoaders + 1);
      Init(empty_[i], 32 * kReaders);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }

  // Called by all loading threads; waits until stage i % kStages may be
  // written.
  __device__ void WaitEmpty(int i) {
    if (i >= kStages) Wait(empty_[i % kStages], (i / kStages - 1) & 1);
  }
  // Called by one of them; copies `bytes` that belong to item i with the copy
  // engine.
  __device__ void CopyBytes(int i, void* to, const void* from, int bytes) {
    const uint32_t barrier = SharedBytes(&full_[i % kStages]);
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(
            barrier),
        "r"(bytes)
        : "memory");
    CopyBulk(from, SharedBytes(to), bytes, barrier);
  }
  // Called by all of them; the cp.async copies started so far belong to item i
  // or earlier ones.
  __device__ void FinishCopies(int i) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                     SharedBytes(&full_[i % kStages]))
                 : "memory");
  }

  // Called by all reading threads; waits until item i has arrived.
  __device__ void WaitFull(int i) {
    Wait(full_[i % kStages], (i / kStages) & 1);
  }
  // Called by all lanes of the reading warps when they have read item i. The
  // fence orders their reads before the copy engine's next write.
  __device__ void Release(int i) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(
                     SharedBytes(&empty_[i % kStages]))
                 : "memory");
  }

 private:
  __device__ static void Init(uint64_t& barrier, int arrivals) {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedBytes(&barrier)),
        "r"(arrivals)
        : "memory");
  }
  __device__ static void Wait(uint64_t& barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(SharedBytes(&barrier)),
        "r"(parity)
        : "memory");
  }

  uint64_t full_[kStages];
  uint64_t empty_[kStages];
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_CHUNK_RING_CUH_
