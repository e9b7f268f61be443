// The two warps that build M = C (I + G)^-1 of a small tree, with which O = D_P
// Q S + M R. M has at most two by two blocks of 16x16, of which only the lower
// triangle is built.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_MATRIX_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_MATRIX_CUH_

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_small.cuh"
#include "kernels/cuda/warp_barriers.cuh"

namespace bole::cuda {

// For trees of up to 16 kUsed nodes, once the rows are in shared memory. A lane
// has node `lane`; `bits` are its ancestors, itself included.
template <int kUsed>
class SmallMatrix {
 public:
  __device__ SmallMatrix(SmallShared& s, uint32_t bits) : s_(s), bits_(bits) {}

  // Called by one warp. Builds the solve blocks.
  __device__ __forceinline__ void BuildSolve() {
    TileSum keys[kTriangle] = {};
    Multiply<true>(keys);
    WaitBarrier(AddressOf(&s_.gates_full), 0);
    ForTriangle([&](int i, int j, int n) { ScaleKeys(i, j, keys[n]); });
    PutFloats(keys[0], s_.blocks[0]);
    InvertBlock</*kTransposed=*/true>(s_.blocks[0]);
    if constexpr (kUsed == 2) {
      s_.blocks[1].Store(keys[1]);
      PutFloats(keys[2], s_.blocks[2]);
      InvertBlock</*kTransposed=*/true>(s_.blocks[2]);
    }
    ArriveLanes(&s_.solve_full);
  }

  // Called by the other warp. Builds M, which replaces the solve blocks.
  __device__ __forceinline__ void BuildMatrix() {
    TileSum m[kTriangle] = {};
    Multiply<false>(m);
    ForTriangle([&](int i, int j, int n) { ScaleQueries(i, j, m[n]); });
    WaitBarrier(AddressOf(&s_.solve_full), 0);
    MultiplyRight(m[0], 0, m[0]);
    if constexpr (kUsed == 2) {
      MultiplyRight(m[2], 2, m[2]);
      MultiplyRight(m[2], 1, m[1]);
      MultiplyRight(m[1], 0, m[1]);
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kTriangle; ++n) s_.blocks[n].Store(m[n]);
    ArriveLanes(&s_.matrix_full);
  }

 private:
  static constexpr int kTriangle = kUsed * (kUsed + 1) / 2;

  // sum += x times the solve block number `block`.
  __device__ __forceinline__ void MultiplyRight(const TileSum& x, int block,
                                                TileSum& sum) const {
    SplitOperand left;
    SplitTile(x, left);
    MultiplyAddBlock(sum, left, s_.blocks[block]);
  }

  // Calls f(i, j, n) for the blocks of the triangle, of which n is the number.
  template <typename F>
  __device__ static __forceinline__ void ForTriangle(const F& f) {
#pragma unroll
    for (int i = 0; i < kUsed; ++i) {
#pragma unroll
      for (int j = 0; j <= i; ++j) f(i, j, BlockIndex{i, j}.Number());
    }
  }

  // The transposes of k_i k_j, or q_i k_j.
  template <bool kOfKeys>
  __device__ __forceinline__ void Multiply(TileSum (&sums)[kTriangle]) const {
#pragma unroll
    for (int step = 0; step < kKeyDim / 16; ++step) {
      uint32_t k[kUsed][4];
      uint32_t q[kUsed][4];
#pragma unroll
      for (int b = 0; b < kUsed; ++b) {
        s_.rows.LoadLeft(b, step, k[b]);
        if (!kOfKeys) s_.rows.LoadLeft(kUsed + b, step, q[b]);
      }
      ForTriangle([&](int i, int j, int n) {
        const auto& left = kOfKeys ? k[j] : q[i];
        const auto& right = kOfKeys ? k[i] : k[j];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          MultiplyAdd(sums[n][h], left, right[h], right[2 + h]);
        }
      });
    }
  }

  // Bits of a node's ancestors among those of a block.
  __device__ uint32_t BitsOf(int node, int block) const {
    return __shfl_sync(~0u, bits_, node) >> block * kTileRows;
  }

  // Scales the tile to -g_ij, with rows j and columns i.
  __device__ __forceinline__ void ScaleKeys(int row, int column,
                                            TileSum& tile) const {
    const SmallGates& gates = s_.gates;
    float2 from[2];
    float scale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int j = column * kTileRows + TileRow(2 * h);
      from[h] = gates.gamma[j];
      scale[h] = -gates.k_scale[j];
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int i = row * kTileRows + TileColumn(c / 2, c % 2);
      const float2 to = gates.gamma[i];
      const float factor = gates.beta[i] * gates.k_scale[i];
      const uint32_t bits = BitsOf(i, column);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int j = TileRow(2 * h);
        const float decay = ExpOfTwo((to.x - from[h].x) + (to.y - from[h].y));
        float& x = tile[c / 2][2 * h + c % 2];
        // Rows after the tree's last may hold anything.
        const bool counts = (bits >> j & 1) != 0 && i != column * kTileRows + j;
        x = counts ? x * (factor * scale[h] * decay) : 0;
      }
    }
  }

  // Scales the tile to exp(Gamma_i - Gamma_j) q_i k_j, with rows i and columns
  // j.
  __device__ __forceinline__ void ScaleQueries(int row, int column,
                                               TileSum& tile) const {
    const SmallGates& gates = s_.gates;
    float2 to[2];
    float scale[2];
    uint32_t bits[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row * kTileRows + TileRow(2 * h);
      to[h] = gates.gamma[i];
      scale[h] = gates.q_scale[i];
      bits[h] = BitsOf(i, column);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int j = TileColumn(c / 2, c % 2);
      const float2 from = gates.gamma[column * kTileRows + j];
      const float factor = gates.k_scale[column * kTileRows + j];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float decay = ExpOfTwo((to[h].x - from.x) + (to[h].y - from.y));
        float& x = tile[c / 2][2 * h + c % 2];
        const bool counts = (bits[h] >> j & 1) != 0;
        x = counts ? x * (factor * scale[h] * decay) : 0;
      }
    }
  }

  SmallShared& s_;
  const uint32_t bits_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_MATRIX_CUH_
