// The tiles of a head's state, into which a commit folds a path.
#ifndef BOLE_KERNELS_CUDA_GDN_FOLD_TILES_CUH_
#define BOLE_KERNELS_CUDA_GDN_FOLD_TILES_CUH_

#include <cstdint>

#include "cuda_runtime.h"
#include "kernels/cuda/divisor.h"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

inline constexpr int kFoldRows = 4;  // Rows of a lane.
using FoldState = StateRows<kFoldRows>;
inline constexpr int kFoldWarpValues = FoldState::kPerWarp;
inline constexpr int kFoldWarps = 4;
inline constexpr int kFoldThreads = 32 * kFoldWarps;
inline constexpr int kFoldTileValues = kFoldWarps * kFoldWarpValues;
inline constexpr int kFoldBlocksPerSm = 3;
inline constexpr int kFoldNodes = 10;  // Nodes staged at a time.

// A request with a path.
struct ActiveRequest {
  int request;
  int slot;
  int first;  // Where the path begins in RowPath::row.
  int count;
  bool from_zero;
  int row[kFoldNodes];  // The path's first rows.
};

// How the states of all requests with paths are cut into tiles.
struct FoldPlan {
  Divisor tiles;   // Tiles of a head.
  Divisor heads;   // Heads of a layer.
  Divisor layers;  // Layers of a request.
  Divisor group;   // Value heads of a key head.

  explicit FoldPlan(const GdnCommitParams& p)
      : tiles((p.shape.value_dim + kFoldTileValues - 1) / kFoldTileValues),
        heads(p.shape.value_heads),
        layers(p.num_layers),
        group(p.shape.value_heads / p.shape.key_heads) {}

  __host__ __device__ int num_tiles(int num_requests) const {
    return num_requests * layers.divisor * heads.divisor * tiles.divisor;
  }
};

// kFoldTileValues rows of one head's state, or fewer in its last tile.
struct FoldTile {
  int active;  // Which of the requests with paths.
  int layer;
  int head;
  int key_head;
  int first_value;

  __device__ FoldTile(const FoldPlan& plan, int first_layer, int index) {
    const int of_heads = plan.tiles.Quotient(index);
    first_value = (index - of_heads * plan.tiles.divisor) * kFoldTileValues;
    const int of_layers = plan.heads.Quotient(of_heads);
    head = of_heads - of_layers * plan.heads.divisor;
    key_head = plan.group.Quotient(head);
    active = plan.layers.Quotient(of_layers);
    layer = first_layer + of_layers - active * plan.layers.divisor;
  }

  // The warp's rows in the state of the request that has this slot; null where
  // the warp has none.
  __device__ float* WarpRows(const GdnCommitParams& p, int slot) const {
    const int value =
        first_value + static_cast<int>(threadIdx.x / 32) * kFoldWarpValues;
    if (value >= p.shape.value_dim) return nullptr;
    return HeadState(p.shape, p.states, slot, layer, head) +
           value * kStateKeyDim;
  }
};

// Which of the four rows of its group of eight lanes a lane sums up.
__device__ inline int SummedRow() {
  return static_cast<int>(threadIdx.x / 2 % 4);
}

// AdvanceRow for four rows, with bitwise equal results. Every lane sums up one
// of the rows, whose value is `v`, which takes a third fewer shuffles.
__device__ inline void AdvanceFourRows(KeyElements (&state)[4],
                                       const KeyElements& k, float decay,
                                       float beta, float v) {
  float dot[4] = {};
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      state[r][i] = __fmul_rn(state[r][i], decay);
      dot[r] = __fmaf_rn(state[r][i], k[i], dot[r]);
    }
  }
  const bool last_two = SummedRow() / 2 == 1;
  const bool odd = SummedRow() % 2 == 1;
  float two[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float sent = last_two ? dot[j] : dot[2 + j];
    two[j] = __fadd_rn(last_two ? dot[2 + j] : dot[j],
                       __shfl_xor_sync(0xffffffffu, sent, 4));
  }
  float sum = __fadd_rn(odd ? two[1] : two[0],
                        __shfl_xor_sync(0xffffffffu, odd ? two[0] : two[1], 2));
  sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
  const float u = __fmul_rn(beta, __fsub_rn(v, sum));
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float row_u = __shfl_sync(0xffffffffu, u, 2 * r, kRowLanes);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      state[r][i] = __fmaf_rn(row_u, k[i], state[r][i]);
    }
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_FOLD_TILES_CUH_
