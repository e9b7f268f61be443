// 16x16 blocks of matrices over the nodes of a tree: their layout among a
// warp's lanes, products with them, and their inverses.
#ifndef BOLE_KERNELS_CUDA_VERIFY_TREE_BLOCKS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_TREE_BLOCKS_CUH_

#include <cstdint>

#include "kernels/cuda/mma.cuh"

namespace bole::cuda {

constexpr int kTileRows = 16;

// Returns 2^x, or 0 where that is below the smallest normal float.
__device__ inline float ExpOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A 16x16 block B, each element split into two bfloat16. It is stored so that
// each lane finds its share of B^T as a right operand: that of rows 0 .. 7 of
// B, then that of rows 8 .. 15.
struct SplitBlock {
  uint4 rows[2][32];

  // `tile` holds B in the layout of sums.
  __device__ void Store(const TileSum& tile) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      uint4 b;
      SplitPair(tile[0][2 * n], tile[0][2 * n + 1], b.x, b.z);
      SplitPair(tile[1][2 * n], tile[1][2 * n + 1], b.y, b.w);
      rows[n][threadIdx.x % 32] = b;
    }
  }
};

// sum += x B^T
__device__ inline void MultiplyAddBlock(TileSum& sum, const SplitOperand& x,
                                        const SplitBlock& block) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    MultiplyAddSplit(sum[n], x, block.rows[n][threadIdx.x % 32]);
  }
}

// sum += x B^T by products that do not depend on each other.
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

// The row and column in a tile of the lane's element r of accumulator n.
__device__ inline int TileRow(int r) {
  return static_cast<int>(threadIdx.x % 32) / 4 + r / 2 * 8;
}
__device__ inline int TileColumn(int n, int r) {
  return n * 8 + static_cast<int>(threadIdx.x % 4) * 2 + r % 2;
}

// The position of a block within a lower triangle.
struct BlockIndex {
  int row;
  int column;

  // The n-th of all blocks with column <= row, counted row by row.
  __device__ static BlockIndex OfTriangle(int n) {
    const int row =
        static_cast<int>((sqrtf(8 * static_cast<float>(n) + 1) - 1) / 2);
    return {row, n - row * (row + 1) / 2};
  }
  __device__ int Number() const { return row * (row + 1) / 2 + column; }
};

// Stores a tile as floats [16, 16] in the memory of `block`.
__device__ inline void PutFloats(const TileSum& tile, SplitBlock& block) {
  auto& scratch = reinterpret_cast<float(&)[kTileRows][kTileRows]>(block);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      reinterpret_cast<float2&>(scratch[TileRow(2 * h)][TileColumn(n, 0)]) =
          make_float2(tile[n][2 * h], tile[n][2 * h + 1]);
    }
  }
}

// Called by a warp. `block` holds, as PutFloats() left it, x = -g of a diagonal
// block or, with kTransposed, its transpose. It becomes (I + g)^-1 - I or the
// transpose of that, computed in float32 by halves of 8 rows. For a lower
// triangle
//
//   e = [e_11, 0; e_21, e_22] = (I - x)^-1,  e_21 = e_22 x_21 e_11
//
// and for an upper one e_12 = e_11 x_12 e_22. e_11 and e_22 are found by
// substitution: each finished column is added into those before it, or after it
// for an upper triangle.
template <bool kTransposed>
__device__ inline void InvertBlock(SplitBlock& block) {
  constexpr int kHalf = kTileRows / 2;
  // The row and column at which the quarter off the diagonal begins.
  constexpr int kRow = kTransposed ? 0 : kHalf;
  constexpr int kColumn = kHalf - kRow;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto& x = reinterpret_cast<const float(&)[kTileRows][kTileRows]>(block);
  // The lane's two columns of a quarter.
  const auto pair = [&](int row, int first_column) {
    return reinterpret_cast<const float2&>(x[row][first_column + lane % 4 * 2]);
  };
  const int first = lane / 4 * 4;  // The first lane with the same rows.
  // The factor left of the off-diagonal quarter, that factor times the quarter,
  // and the factor right of it.
  float left[2];
  float product[2] = {};
  float right[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    left[r] = right[r] = TileRow(0) == TileColumn(0, r) ? 1 : 0;
  }
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kHalf; ++n) {
    const int j = kTransposed ? n : kHalf - 1 - n;
    const float y = __shfl_sync(~0u, left[j % 2], first + j / 2);
    const float z = __shfl_sync(~0u, right[j % 2], first + j / 2);
    const float2 of_left = pair(kRow + j, kRow);
    const float2 coupling = pair(kRow + j, kColumn);
    const float2 of_right = pair(kColumn + j, kColumn);
    left[0] += of_left.x * y;
    left[1] += of_left.y * y;
    product[0] += coupling.x * y;
    product[1] += coupling.y * y;
    right[0] += of_right.x * z;
    right[1] += of_right.y * z;
  }
  TileSum inverse = {};
#pragma unroll
  for (int j = 0; j < kHalf; ++j) {
    const float y = __shfl_sync(~0u, product[j % 2], first + j / 2);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      inverse[kColumn / kHalf][kRow / 4 + r] +=
          y * __shfl_sync(~0u, right[r], 4 * j + lane % 4);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool is_one = TileRow(0) == TileColumn(0, r);
    inverse[kRow / kHalf][kRow / 4 + r] = is_one ? 0 : left[r];
    inverse[kColumn / kHalf][kColumn / 4 + r] = is_one ? 0 : right[r];
  }
  __syncwarp();
  block.Store(inverse);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_TREE_BLOCKS_CUH_
