// Barriers in shared memory (hopper.cuh) between warps of a block.
#ifndef BOLE_KERNELS_CUDA_WARP_BARRIERS_CUH_
#define BOLE_KERNELS_CUDA_WARP_BARRIERS_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"

namespace bole::cuda {

// Called by all lanes of a warp, which arrives once. That is enough before
// copies, and for what tensor cores read.
__device__ inline void ArriveWarp(const uint64_t* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) Arrive(AddressOf(barrier));
}

// Every lane arrives. This is for accesses by the lanes themselves: there
// compute-sanitizer's racecheck follows neither one lane's arrival after
// __syncwarp() nor named barriers of some warps.
__device__ inline void InitLaneBarrier(const uint64_t* barrier, int warps) {
  InitBarrier(AddressOf(barrier), 32 * warps);
}
__device__ inline void ArriveLanes(const uint64_t* barrier) {
  __syncwarp();
  Arrive(AddressOf(barrier));
}

// A place among stages that are used in turn, and the parity of its barriers.
template <int kStages>
struct StageAt {
  int stage = 0;
  uint32_t parity = 0;

  __device__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  // Waits until the stage has been filled, or may be filled.
  __device__ void WaitFull(const uint64_t* full) const {
    WaitBarrier(AddressOf(full + stage), parity);
  }
  __device__ void WaitEmpty(const uint64_t* empty) const {
    WaitBarrier(AddressOf(empty + stage), parity ^ 1);
  }
  // Called by all lanes of the stage's warps. What they wrote before may be
  // read after.
  __device__ void Meet(const uint64_t* met) const {
    ArriveLanes(met + stage);
    WaitFull(met);
    __syncwarp();
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_WARP_BARRIERS_CUH_
