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

// From the transpose n of -g, as PutFloats() left it, to that of (I + g)^-1 -
// I, in float32, by halves of 8 rows:
//
//   e = [e_11, e_12; 0, e_22] = (I - n)^-1,  e_12 = e_11 n_12 e_22
//
// e_11 and e_22 by substitution: each column that is done is taken into those
// behind it.
__device__ inline void InvertTransposed(SplitBlock& block) {
  constexpr int kHalf = kTileRows / 2;
  const float* const minus_g = reinterpret_cast<const float*>(&block);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = lane / 4 * 4;  // Of the lanes that have the same rows.
  float e11[2];
  float e22[2];
  float product[2] = {};  // e_11 n_12
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    e11[r] = e22[r] = TileRow(0) == TileColumn(0, r) ? 1 : 0;
  }
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kHalf; ++j) {
    const auto row = [&](int i, int n) {
      return *reinterpret_cast<const float2*>(minus_g + i * kTileRows +
                                              TileColumn(n, 0));
    };
    const float x = __shfl_sync(~0u, e11[j % 2], first + j / 2);
    const float y = __shfl_sync(~0u, e22[j % 2], first + j / 2);
    const float2 n11 = row(j, 0);
    const float2 n12 = row(j, 1);
    const float2 n22 = row(kHalf + j, 1);
    e11[0] += n11.x * x;
    e11[1] += n11.y * x;
    product[0] += n12.x * x;
    product[1] += n12.y * x;
    e22[0] += n22.x * y;
    e22[1] += n22.y * y;
  }
  TileSum tile = {};
#pragma unroll
  for (int j = 0; j < kHalf; ++j) {
    const float x = __shfl_sync(~0u, product[j % 2], first + j / 2);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      tile[1][r] += x * __shfl_sync(~0u, e22[r], 4 * j + lane % 4);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool is_diagonal = TileRow(0) == TileColumn(0, r);
    tile[0][r] = is_diagonal ? 0 : e11[r];
    tile[1][2 + r] = is_diagonal ? 0 : e22[r];
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
