// The matrices over the nodes of a tree that one value head's verification
// multiplies by, stored as 16x16 blocks of the lower triangle in shared memory.
#ifndef BOLE_KERNELS_CUDA_VERIFY_TREE_MATRICES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_TREE_MATRICES_CUH_

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_blocks.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"

namespace bole::cuda {

constexpr int kKeyDim = 128;

// [kNodes, 128] bfloat16 in two panels of 64 columns. Within each row of a
// panel the eight 16-byte chunks are permuted, so that equal columns of eight
// successive rows are in different banks.
template <int kNodes>
struct NodeRows {
  uint4 chunk[2][kNodes][8];

  __device__ static int Swizzled(int row, int chunk) {
    return chunk ^ (row % 8);
  }

  // Copies `count` rows, `stride` elements apart, and clears the rows after
  // them up to `padded`, with kThreads threads, of which this is the
  // `thread`-th.
  template <int kThreads>
  __device__ void LoadAsync(const __nv_bfloat16* from, int64_t stride,
                            int count, int padded,
                            int thread = static_cast<int>(threadIdx.x)) {
    // A thread's chunks have the same place in all of its rows.
    constexpr int kStep = kThreads / 16;
    static_assert(kStep % 8 == 0);
    const int first = thread / 16;
    const int c = thread % 16;
    const uint32_t to =
        SharedAddress(&chunk[c / 8][first][Swizzled(first, c % 8)]);
    const __nv_bfloat16* at = from + first * stride + c * 8;
#pragma unroll
    for (int n = 0; n < (kNodes + kStep - 1) / kStep; ++n) {
      const int row = first + n * kStep;
      if (row >= padded) break;
      CopyAsync16(to + n * kStep * static_cast<int>(sizeof(chunk[0][0])),
                  row < count ? at : from, row < count);
      at += kStep * stride;
    }
  }

  // Rows 16 block .. + 15 and columns 16 step .. + 15 as a left operand.
  __device__ void LoadLeft(int block, int step, uint32_t (&a)[4]) const {
    const int lane = threadIdx.x % 32;
    LoadTile(block, step, lane % 16, lane / 16, a);
  }
  // The same tile, transposed, as two right operands of 8 columns. That of rows
  // 16 block .. + 7 is in b[0], b[1].
  __device__ void LoadRight(int block, int step, uint32_t (&b)[4]) const {
    const int lane = threadIdx.x % 32;
    LoadTile(block, step, lane % 8 + lane / 16 * 8, lane / 8 % 2, b);
  }

 private:
  __device__ void LoadTile(int block, int step, int row, int half,
                           uint32_t (&m)[4]) const {
    const int c = step % 4 * 2 + half;
    LoadMatrices(
        SharedAddress(
            &chunk[step / 4][block * kTileRows + row][Swizzled(row, c)]),
        m);
  }
};

// With g_ij = beta_i exp(Gamma_i - Gamma_j) k_i k_j for ancestors j of i:
//
//   solve    -g off the diagonal blocks; on it (I + g)^-1 - I of the block, so
//            that the identity part of the solve stays exact
//   readout  exp(Gamma_i - Gamma_j) q_i k_j for ancestors and i itself
template <int kBlocks>
struct TreeMatrices {
  static constexpr int kNodes = kBlocks * kTileRows;
  static constexpr int kTriangle = kBlocks * (kBlocks + 1) / 2;

  SplitBlock solve[kTriangle];
  SplitBlock readout[kTriangle];

  // One block of both matrices.
  struct Tiles {
    BlockIndex at;
    TileSum keys;
    TileSum queries;

    // Computes k_i k_j and q_i k_j.
    __device__ void Multiply(const NodeRows<kNodes>& k,
                             const NodeRows<kNodes>& q) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        keys[i / 4][i % 4] = 0;
        queries[i / 4][i % 4] = 0;
      }
#pragma unroll
      for (int step = 0; step < kKeyDim / 16; ++step) {
        uint32_t left[4];
        uint32_t right[4];
        k.LoadRight(at.column, step, right);
        k.LoadLeft(at.row, step, left);
        MultiplyAdd(keys[0], left, right[0], right[1]);
        MultiplyAdd(keys[1], left, right[2], right[3]);
        q.LoadLeft(at.row, step, left);
        MultiplyAdd(queries[0], left, right[0], right[1]);
        MultiplyAdd(queries[1], left, right[2], right[3]);
      }
    }

    // Scales the products to -g and to the readout.
    template <typename Gates>
    __device__ void Scale(const Gates& gates, int head) {
      const auto& of_head = gates.heads[head];
      const int columns = at.column * kTileRows + TileColumn(0, 0);
      float2 column_gamma[4];
      float column_scale[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = columns + c / 2 * 8 + c % 2;
        column_gamma[c] = of_head.gamma[j];
        column_scale[c] = gates.k_scale[j];
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = at.row * kTileRows + TileRow(2 * r);
        const float key_scale = -of_head.beta[i] * gates.k_scale[i];
        const float query_scale = gates.q_scale[i];
        const float2 gamma = of_head.gamma[i];
        const uint32_t bits = gates.ancestors[i][columns / 32] >> columns % 32;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int j = columns + c / 2 * 8 + c % 2;
          // Only ancestors' decays are used, which never exceed 1.
          const float difference =
              (gamma.x - column_gamma[c].x) + (gamma.y - column_gamma[c].y);
          const bool descends = bits >> (j - columns) & 1;
          const float scale =
              ExpOfTwo(descends ? difference : -INFINITY) * column_scale[c];
          float& key = keys[c / 2][2 * r + c % 2];
          float& query = queries[c / 2][2 * r + c % 2];
          key *= i == j ? 0 : key_scale * scale;
          query *= query_scale * scale;
        }
      }
    }
  };

  // The blocks that warp `warp` of a group of kWarps builds. Their order gives
  // the blocks on the diagonal, which take longest, to different warps.
  template <int kWarps>
  __device__ static int NumTiles(int num_blocks, int warp) {
    return (num_blocks * (num_blocks + 1) / 2 - warp + kWarps - 1) / kWarps;
  }
  template <int kWarps>
  __device__ static BlockIndex TileAt(int num_blocks, int warp, int n) {
    n = warp + n * kWarps;
    if (n < num_blocks) return {n, n};
    BlockIndex at = BlockIndex::OfTriangle(n - num_blocks);
    ++at.row;
    return at;
  }

  __device__ void Store(Tiles& tiles) {
    const int number = tiles.at.Number();
    if (tiles.at.row == tiles.at.column) {
      PutFloats(tiles.keys, solve[number]);
      InvertBlock</*kTransposed=*/false>(solve[number]);
    } else {
      solve[number].Store(tiles.keys);
    }
    readout[number].Store(tiles.queries);
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_TREE_MATRICES_CUH_
