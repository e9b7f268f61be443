// Shared memory and roles of a block that verifies trees of up to 128 nodes,
// head after head (gdn_verify_long.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_long_gates.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

constexpr int kLongNodes = LongGates::kNodes;
constexpr int kLongColumns = 128;  // dv
// Parents come before their children, so the matrices over the nodes are lower
// triangular in blocks of 64: 11, 21 and 22.
constexpr int kHalfNodes = 64;
constexpr int kHalfTiles = kHalfNodes / kTileRows;
constexpr int kHalfTriangle = kHalfTiles * (kHalfTiles + 1) / 2;

// Warpgroup 0 has the value columns, 64 at a time; 1 and 2 build the matrices
// over the nodes, a half of the rows each; the warps of 3 load. Their registers
// add up to 512.
constexpr int kLongBuilderGroups = 2;
constexpr int kLongColumnRegisters = 192;
constexpr int kLongLoaderRegisters = 64;

// [kRows, 64] in two bfloat16 parts, whose rows have the layout that
// WgmmaOperand() expects.
template <int kRows>
struct SplitRows {
  uint4 part[2][kRows][8];
};

struct LongShared {
  static constexpr int kColumnGroups = 1;
  static constexpr int kSlots = 8;  // Slots for boxes of the state and of v.
  static constexpr int kEarlyBoxes = kStateBoxes;  // Before the first rows.

  NodeRows<2 * kLongNodes> rows;  // k, then q.
  uint4 ring[kColumnGroups][kSlots][kBoxBytes / sizeof(uint4)];
  SplitRows<3 * kHalfNodes> matrix;    // M_11, M_21, M_22.
  SplitRows<kHalfNodes> coupling;      // -G_21, transposed.
  SplitBlock solve[2][kHalfTriangle];  // With G_11 and with G_22.
  LongGates gates[kGateStages];
  ColumnGates<kLongNodes> columns[kHeadStages];
  HeadHeader headers[kHeadStages];
  uint64_t rows_full[2];  // For k, for q.
  uint64_t rows_empty;
  uint64_t ring_full[kColumnGroups][kSlots];
  uint64_t ring_empty[kColumnGroups][kSlots];
  uint64_t headers_full[kHeadStages];
  uint64_t columns_full[kHeadStages];
  uint64_t columns_empty[kHeadStages];
  uint64_t gates_full[kGateStages];
  uint64_t first_gates;  // The first head's have arrived.
  uint64_t gates_empty[kGateStages];
  uint64_t solve_full[kLongBuilderGroups];
  uint64_t solve_empty;    // Both, and the coupling.
  uint64_t coupling_full;  // And solve[0].
  uint64_t matrix_full;
  uint64_t matrix_empty;

  // Called by one thread.
  __device__ void InitBarriers() {
    constexpr int kGroupWarps = 4;
    constexpr int kBuilderWarps = kGroupWarps * kLongBuilderGroups;
    for (uint64_t& barrier : rows_full) InitBarrier(AddressOf(&barrier), 1);
    InitBarrier(AddressOf(&rows_empty), kGroupWarps + kBuilderWarps);
    for (int i = 0; i < kSlots; ++i) {
      InitBarrier(AddressOf(&ring_full[0][i]), 1);
      InitBarrier(AddressOf(&ring_empty[0][i]), kGroupWarps);
    }
    for (int i = 0; i < kHeadStages; ++i) {
      InitBarrier(AddressOf(&headers_full[i]), 1);
      InitLaneBarrier(&columns_full[i], 1);
      InitLaneBarrier(&columns_empty[i], kGroupWarps);
    }
    for (int i = 0; i < kGateStages; ++i) {
      InitLaneBarrier(&gates_full[i], 1);
      InitLaneBarrier(&gates_empty[i], kBuilderWarps);
    }
    InitLaneBarrier(&first_gates, 1);
    InitLaneBarrier(&solve_empty, kBuilderWarps);
    for (uint64_t& barrier : solve_full) {
      InitLaneBarrier(&barrier, kGroupWarps);
    }
    InitBarrier(AddressOf(&matrix_full), kBuilderWarps);
    InitBarrier(AddressOf(&matrix_empty), kGroupWarps);
    InitLaneBarrier(&coupling_full, kGroupWarps);
    FenceBarrierInit();
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Called by a warpgroup. Multiplies 64 rows from `first` on of
// LongShared::rows, whose address is given, by those from `second` on. The rows
// of the queries follow those of the keys.
__device__ __forceinline__ void MultiplyNodes(uint32_t rows, int first,
                                              int second,
                                              float (&products)[32]) {
  constexpr int kPanel = 2 * kLongNodes * 128;
  const uint64_t a = WgmmaOperand(rows + first * 128);
  const uint64_t b = WgmmaOperand(rows + second * 128);
  WgmmaFence();
#pragma unroll
  for (int step = 0; step < kKeyDim / 16; ++step) {
    const int bytes = step / 4 * kPanel + step % 4 * 32;
    Wgmma64(products, WgmmaOperandBehind(a, bytes),
            WgmmaOperandBehind(b, bytes), step > 0);
  }
  WgmmaCommit();
}

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_CUH_
