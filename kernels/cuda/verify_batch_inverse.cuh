// The inverse of a diagonal block, by a warp.
#ifndef BOLE_KERNELS_CUDA_VERIFY_BATCH_INVERSE_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_BATCH_INVERSE_CUH_

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tree_matrices.cuh"

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
// by substitution in float32: a lane for each column of the inverse.
__device__ inline void InvertTransposed(SplitBlock& block) {
  float* const scratch = reinterpret_cast<float*>(&block);
  __syncwarp();
  SubstituteInverse(scratch);
  TileSum tile;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      tile[n][r] = scratch[TileColumn(n, r) * kTileRows + TileRow(r)];
    }
  }
  __syncwarp();
  block.Store(tile);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_BATCH_INVERSE_CUH_
