// Shared memory and roles of a block that verifies half of the columns of one
// head of a small tree (gdn_verify_batched.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_state_box.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

constexpr int kSmallNodes = 32;
constexpr int kHalfColumns = 64;
// A warpgroup multiplies by the state. Of the two warps after it, one builds
// the solve blocks from the products of the keys with each other; the other
// loads the gates and builds M from the products of the queries.
constexpr int kSmallColumnWarps = 4;
constexpr int kSmallThreads = 32 * (kSmallColumnWarps + 2);
constexpr int kSmallBlocks = 4;  // On a multiprocessor.
// Boxes of the state that are requested before the rows of k and q, which queue
// after them: as many as keep the memory busy.
constexpr int kSmallEarlyBoxes = 2;

// The gates of every node; entries after the last node are zero.
struct SmallGates {
  float2 gamma[kSmallNodes];  // As in TreeGates.
  float k_scale[kSmallNodes];
  float q_scale[kSmallNodes];
  float beta[kSmallNodes];
  float correction_scale[kSmallNodes];  // beta exp(Gamma) k_scale
  float readout_scale[kSmallNodes];     // exp(Gamma) q_scale
};

struct SmallShared {
  uint4 state[kStateBoxes][kBoxBytes / sizeof(uint4)];
  NodeRows<2 * kSmallNodes> rows;  // k, then q, in blocks of 16.
  uint4 values[kSmallNodes][8];    // [nodes, 64 columns] of v, then of O.
  SplitBlock blocks[3];            // The solve blocks, then M.
  SmallGates gates;
  uint64_t state_full[kStateBoxes];
  uint64_t rows_full;
  uint64_t values_full;
  uint64_t gates_full;
  uint64_t solve_full;
  uint64_t matrix_full;

  // Called by one thread.
  __device__ void InitBarriers() {
    for (uint64_t& barrier : state_full) InitBarrier(AddressOf(&barrier), 1);
    InitBarrier(AddressOf(&rows_full), 1);
    InitBarrier(AddressOf(&values_full), 1);
    InitLaneBarrier(&gates_full, 1);
    InitLaneBarrier(&solve_full, 1);
    InitLaneBarrier(&matrix_full, 1);
    FenceBarrierInit();
  }
};
static_assert(kSmallBlocks * (sizeof(SmallShared) + 1024) <= 228 * 1024);

// What a block works on. May be constructed before WaitForPrevious(): the
// topology is from before the forward pass.
struct HalfHead {
  int head;
  int key_head;
  int column;  // The first of the half.
  int first_row;
  int count;  // T
  int slot;
  bool has_state;

  __device__ explicit HalfHead(const GdnCoreParams& p)
      : head(static_cast<int>(blockIdx.y * (gridDim.x / 2) + blockIdx.x / 2)),
        key_head(static_cast<int>(blockIdx.y)),
        column(static_cast<int>(blockIdx.x) % 2 * kHalfColumns) {
    const int request = static_cast<int>(blockIdx.z);
    first_row = __ldcg(p.batch.first_row + request);
    count = __ldcg(p.batch.first_row + request + 1) - first_row;
    slot = __ldcg(p.batch.slot + request);
    has_state = __ldcg(p.batch.committed + request) > 0;
  }
  // The number of blocks of 16 nodes.
  __device__ int NumBlocks() const { return count <= kTileRows ? 1 : 2; }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_CUH_
