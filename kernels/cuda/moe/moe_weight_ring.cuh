// Weights on their way to the tensor cores: a ring of stages in shared memory,
// which two warps of a block fill and the others multiply.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_WEIGHT_RING_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_WEIGHT_RING_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/moe/moe_stream_block.cuh"

namespace bole::cuda::moe {

// Stage i of all is in place i % kStages. A stage has a row of weights for each
// of kSets times 8 lanes; they lie a little apart, so that lanes meet in no
// bank.
template <int kSets, int kStages>
class WeightRing {
 public:
  static constexpr int kRows = kSets * kSetRows;
  static constexpr int kRowBytes = 2 * kChunkColumns + 64;
  static constexpr int kBytes = kStages * (kRows * kRowBytes + 16) + 16;

  // `memory`: kBytes, aligned to 16.
  __device__ explicit WeightRing(unsigned char* memory)
      : begin_(AddressOf(memory)),
        requested_(reinterpret_cast<int*>(memory + kBytes - 16)) {}

  // By one thread; a barrier of the block must follow before anyone waits for a
  // stage.
  __device__ void Init() const {
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(Full(i), 32 * kCopyWarps);
      InitBarrier(Empty(i), 32);
    }
    *requested_ = 0;
    FenceBarrierInit();
  }

  // By the copying warps: requests stage `i`, a chunk of rows;
  // rows[s] is row CopiedRow() of set s, or null. Waits until what was there
  // has been released.
  __device__ void Copy(int i, const BFloat16* const (&rows)[kSets]) const {
    WaitBarrier(Empty(i), (static_cast<uint32_t>(i / kStages) & 1u) ^ 1u);
    __syncwarp();
    if (threadIdx.x == kProductThreads) atomicExch(requested_, i + 1);
    const int piece = static_cast<int>(threadIdx.x) % kCopiersOfRow;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      if (rows[s] == nullptr) continue;
      const BFloat16* from = rows[s] + piece * kVector;
      const uint32_t to =
          Row(i, s * kSetRows + CopiedRow()) + 2 * piece * kVector;
#pragma unroll
      for (int c = 0; c < kChunkColumns; c += kCopiersOfRow * kVector) {
        CopyUnit(from + c, to + 2 * c, 16);
      }
    }
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(Full(i))
        : "memory");
  }

  // By the warp whose job it is, in ascending order. Of the stages that a place
  // has, a barrier tells each only from the next: the one before has to be over
  // first, as it is where the warp's last stage is near enough. Lanes come out
  // of a wait by themselves, and have to be together for products.
  __device__ void Wait(int i) {
    if (i - last_ > kStages) {
      while (atomicAdd(requested_, 0) <= i) __nanosleep(32);
    }
    last_ = i;
    WaitBarrier(Full(i), static_cast<uint32_t>(i / kStages) & 1u);
    __syncwarp();
  }
  // By all its lanes (warp_barriers.cuh tells why).
  __device__ void Release(int i) const { Arrive(Empty(i)); }

  // Each lane's vectors of a span of the stage.
  __device__ void Read(int i, int span, uint4 (&v)[kSets]) const {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      const uint32_t from =
          Row(i, s * kSetRows + Lane() / 4) +
          static_cast<uint32_t>(span * 2 * kSpanColumns + Lane() % 4 * 16);
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[s].x), "=r"(v[s].y), "=r"(v[s].z), "=r"(v[s].w)
                   : "r"(from)
                   : "memory");
    }
  }

 private:
  __device__ uint32_t Row(int i, int row) const {
    return begin_ +
           static_cast<uint32_t>((i % kStages * kRows + row) * kRowBytes);
  }
  __device__ uint32_t Full(int i) const {
    return begin_ + static_cast<uint32_t>(kStages * kRows * kRowBytes +
                                          i % kStages * 16);
  }
  __device__ uint32_t Empty(int i) const { return Full(i) + 8; }

  const uint32_t begin_;
  int* const requested_;  // How many stages.
  int last_ = -1;
};

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_WEIGHT_RING_CUH_
