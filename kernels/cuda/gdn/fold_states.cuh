// Loads states for the warps that fold paths into them.
#ifndef BOLE_KERNELS_CUDA_GDN_FOLD_STATES_CUH_
#define BOLE_KERNELS_CUDA_GDN_FOLD_STATES_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/fold_tiles.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/hopper.cuh"

namespace bole::cuda {

#if __CUDA_ARCH__ >= 900

// CopyBulk (hopper.cuh) for data that is written back soon. L2 keeps it until
// then, so that the write hits.
__device__ inline void CopyKept(const void* from, uint32_t to, int bytes,
                                uint32_t barrier) {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

#endif

// A warp's rows of a tile. The copy engine brings them to shared memory, so
// that no warp stalls until a busy memory system accepts its loads. On GPUs
// without one, they are loaded when they are taken. Called by whole warps; what
// has been staged must be taken or dropped before anything else is staged, and
// before the block ends.
class StagedRows {
 public:
  using Rows = float[kFoldWarpValues][kStateKeyDim];

  // Both arguments are in shared memory and used by this warp only.
  __device__ StagedRows(Rows& rows, uint64_t& arrived)
      : rows_(rows), arrived_(arrived) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0) {
      InitBarrier(AddressOf(&arrived_), 1);
      FenceBarrierInit();
    }
    __syncwarp();
#endif
  }

  // A null pointer stands for zeros.
  __device__ void Stage(const float* from) {
    from_ = from;
#if __CUDA_ARCH__ >= 900
    if (from == nullptr || threadIdx.x % 32 != 0) return;
    const uint32_t barrier = AddressOf(&arrived_);
    ArriveExpecting(barrier, sizeof(Rows));
    CopyKept(from, AddressOf(rows_), sizeof(Rows), barrier);
#endif
  }

  __device__ void Take(FoldState& state) {
    if (from_ == nullptr) {
      state.Clear();
      return;
    }
#if __CUDA_ARCH__ >= 900
    WaitBarrier(AddressOf(&arrived_), parity_);
    parity_ ^= 1;
    state.Load(&rows_[0][0]);
    FenceForAsync();  // The rows may be overwritten now.
    __syncwarp();
#else
    state.Load(from_);
#endif
  }

  __device__ void Drop() {
#if __CUDA_ARCH__ >= 900
    if (from_ == nullptr) return;
    WaitBarrier(AddressOf(&arrived_), parity_);
    parity_ ^= 1;
    __syncwarp();
#endif
    from_ = nullptr;
  }

 private:
  Rows& rows_;
  uint64_t& arrived_;
  const float* from_ = nullptr;  // Where the rows in flight come from.
  uint32_t parity_ = 0;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_FOLD_STATES_CUH_
