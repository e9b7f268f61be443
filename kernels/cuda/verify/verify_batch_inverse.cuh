// The inverse of a diagonal block, by a warp.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_INVERSE_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_INVERSE_CUH_

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"

namespace bole::cuda {

// A tile as floats [16, 16] in place of a block.
__device__ inline void PutFloats(const TileSum& tile, SplitBlock& block) {
  float* const scratch = reinterpret_cast<float*>(&block);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<float2*>(scratch + TileRow(2 * h) * kTileRows +
                                 TileColumn(n, 0)) =
          make_float2(tile[n][2 * h], tile[n][2 * h + 1]);
    }
  }
}

// From the transpose of -g, as PutFloats() left it, to that of (I + g)^-1 - I,
// by substitution in float32: each column of the inverse's transpose that is
// done is taken into those behind it.
__device__ inline void InvertTransposed(SplitBlock& block) {
  const float* const minus_g = reinterpret_cast<const float*>(&block);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TileSum tile;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      tile[n][r] = TileRow(r) == TileColumn(n, r) ? 1 : 0;
    }
  }
  __syncwarp();
#pragma unroll
  for (int j = 0; j + 1 < kTileRows; ++j) {
    float2 g[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      g[n] = *reinterpret_cast<const float2*>(minus_g + j * kTileRows +
                                              TileColumn(n, 0));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float even = j < 8 ? tile[0][2 * h] : tile[1][2 * h];
      const float odd = j < 8 ? tile[0][2 * h + 1] : tile[1][2 * h + 1];
      const float x =
          __shfl_sync(~0u, j % 2 == 0 ? even : odd, lane / 4 * 4 + j % 8 / 2);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        tile[n][2 * h] += g[n].x * x;
        tile[n][2 * h + 1] += g[n].y * x;
      }
    }
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (TileRow(r) == TileColumn(n, r)) tile[n][r] = 0;
    }
  }
  __syncwarp();
  block.Store(tile);
}

// sum += x B^T by products that do not wait for each other.
__device__ __forceinline__ void MultiplyAddBlockApart(TileSum& sum,
                                                      const SplitOperand& x,
                                                      const SplitBlock& block) {
  const uint4 b[2] = {block.rows[0][threadIdx.x % 32],
                      block.rows[1][threadIdx.x % 32]};
  TileSum low = {};
  TileSum cross = {};
#pragma unroll
  for (int n = 0; n < 2; ++n) MultiplyAdd(sum[n], x.high, b[n].x, b[n].y);
#pragma unroll
  for (int n = 0; n < 2; ++n) MultiplyAdd(low[n], x.low, b[n].x, b[n].y);
#pragma unroll
  for (int n = 0; n < 2; ++n) MultiplyAdd(cross[n], x.high, b[n].z, b[n].w);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum[i / 4][i % 4] += low[i / 4][i % 4] + cross[i / 4][i % 4];
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_INVERSE_CUH_
