// What a commit folds a path into: tiles of a head's state.
#ifndef BOLE_KERNELS_CUDA_GDN_FOLD_TILES_CUH_
#define BOLE_KERNELS_CUDA_GDN_FOLD_TILES_CUH_

#include <cstdint>

#include "cuda_runtime.h"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

inline constexpr int kFoldRows = 4;  // Of a lane.
inline constexpr int kFoldWarpValues = StateRows<kFoldRows>::kPerWarp;
inline constexpr int kFoldWarps = 4;
inline constexpr int kFoldThreads = 32 * kFoldWarps;
inline constexpr int kFoldTileValues = kFoldWarps * kFoldWarpValues;
inline constexpr int kFoldBlocksPerSm = 4;
inline constexpr int kFoldVectors = kElements / 4;  // Of a lane's row.
inline constexpr int kFoldNodes = 10;               // At a time.
inline constexpr int kFoldChunk = 8;  // Elements that a thread converts.
inline constexpr int kKeyChunks = kStateKeyDim / kFoldChunk;
inline constexpr int kValueChunks = kFoldTileValues / kFoldChunk;
// A request with a path.
struct ActiveRequest {
  int request;
  int slot;
  int first;  // Of the path.
  int count;
  bool from_zero;
  int row[kFoldNodes];  // The path's first.
};

// kFoldTileValues rows of one head's state, or what is left of them.
struct FoldTile {
  const ActiveRequest* request;
  int layer;
  int head;
  int first_value;

  FoldTile() = default;
  // Of the requests that have paths.
  __device__ FoldTile(const GdnCommitParams& p, const ActiveRequest* active,
                      int index) {
    const int tiles =
        (p.shape.value_dim + kFoldTileValues - 1) / kFoldTileValues;
    first_value = index % tiles * kFoldTileValues;
    index /= tiles;
    head = index % p.shape.value_heads;
    index /= p.shape.value_heads;
    layer = p.first_layer + index % p.num_layers;
    request = &active[index / p.num_layers];
  }
  // Of the warp's rows.
  __device__ int WarpValue() const {
    return first_value + static_cast<int>(threadIdx.x / 32) * kFoldWarpValues;
  }
  __device__ float* WarpState(const GdnCommitParams& p) const {
    return HeadState(p.shape, p.states, request->slot, layer, head) +
           WarpValue() * kStateKeyDim;
  }
};

__device__ inline int NumTiles(const GdnCommitParams& p, int num_active) {
  return num_active * p.num_layers * p.shape.value_heads *
         ((p.shape.value_dim + kFoldTileValues - 1) / kFoldTileValues);
}

// Of four rows of a group of eight lanes, the one that a lane sums up.
__device__ inline int SummedRow() {
  return static_cast<int>(threadIdx.x / 2 % 4);
}

// AdvanceRow for four rows with the same bits: every lane sums up one of them,
// whose value is `v`, with a third fewer exchanges.
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
