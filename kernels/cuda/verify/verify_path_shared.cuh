// Shared memory and roles of a block that verifies trees of up to 128 nodes
// whose paths are short, head after head (gdn_verify_paths.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_SHARED_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_SHARED_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_long.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/cuda/verify/verify_paths.cuh"
#include "kernels/cuda/warp_barriers.cuh"

namespace bole::cuda {

// Roles of warpgroups are those of verify_batch.cuh: 0 and 1 have 64 value
// columns each, 2 builds, the threads of 3 load. Their registers add up to 512.
constexpr int kPathColumnRegisters = 192;
constexpr int kPathBuilderRegisters = 104;
constexpr int kPathLoaderRegisters = 24;

struct PathShared {
  static constexpr int kColumnGroups = 2;
  static constexpr int kSlots = 4;  // Slots for boxes of the state and of v.
  static constexpr int kEarlyBoxes = 2;  // Before the first rows.
  static constexpr int kWords = kLongNodes / 32;

  NodeRows<2 * kLongNodes> rows;  // k, then q.
  uint4 ring[kColumnGroups][kSlots][kBoxBytes / sizeof(uint4)];
  SplitRows<3 * kHalfNodes> matrix;  // M_11, M_21, M_22.
  PathProducts<kLongNodes> products;
  PathCouplings<kLongNodes> couplings;
  NodeScales nodes[kLongNodes];
  uint32_t ancestors[kLongNodes][kWords];
  float q_scale[kLongNodes];
  float log_decays[kLongNodes];
  ColumnGates<kLongNodes> columns[kHeadStages];
  HeadHeader headers[kHeadStages];
  uint64_t rows_full[2];  // For k, for q.
  uint64_t rows_empty;
  uint64_t ring_full[kColumnGroups][kSlots];
  uint64_t ring_empty[kColumnGroups][kSlots];
  uint64_t headers_full[kHeadStages];
  uint64_t columns_full[kHeadStages];
  uint64_t columns_empty[kHeadStages];  // For their headers too.
  // Between threads of the group that builds:
  uint64_t item_ended;
  uint64_t topology_met;
  uint64_t log_decays_met;
  uint64_t gates_met;
  uint64_t products_met;
  uint64_t couplings_met;
  uint64_t matrix_full;
  uint64_t matrix_empty;

  // Called by one thread.
  __device__ void InitBarriers() {
    constexpr int kGroupWarps = 4;
    constexpr int kColumnWarps = kGroupWarps * kColumnGroups;
    for (uint64_t& barrier : rows_full) InitBarrier(AddressOf(&barrier), 1);
    InitBarrier(AddressOf(&rows_empty), kColumnWarps + kGroupWarps);
    for (int g = 0; g < kColumnGroups; ++g) {
      for (int i = 0; i < kSlots; ++i) {
        InitBarrier(AddressOf(&ring_full[g][i]), 1);
        InitBarrier(AddressOf(&ring_empty[g][i]), kGroupWarps);
      }
    }
    for (int i = 0; i < kHeadStages; ++i) {
      InitBarrier(AddressOf(&headers_full[i]), 1);
      InitLaneBarrier(&columns_full[i], kGroupWarps);
      InitLaneBarrier(&columns_empty[i], kColumnWarps + kGroupWarps);
    }
    for (uint64_t* barrier : {&item_ended, &topology_met, &log_decays_met,
                              &gates_met, &products_met, &couplings_met}) {
      InitLaneBarrier(barrier, kGroupWarps);
    }
    InitBarrier(AddressOf(&matrix_full), kGroupWarps);
    InitBarrier(AddressOf(&matrix_empty), kColumnWarps);
    FenceBarrierInit();
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_SHARED_CUH_
