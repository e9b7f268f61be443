// The matrices of verify_alone.cuh: each warp builds a row of blocks.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_MATRIX_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_MATRIX_CUH_

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_alone.cuh"
#include "kernels/cuda/verify/verify_solve.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

// Turns -g of a diagonal block into (I + g)^-1 - I, by substitution in float32.
// Called by a warp, which owns `scratch`. Here it is faster than InvertBlock():
//
//   (I + [A 0; B D])^-1 = [A' 0; -D' B A' D'], A' = (I + A)^-1, D' = (I + D)^-1
__device__ inline void InvertDiagonal(TileSum& tile, FloatTile& scratch) {
  constexpr int kHalf = kTileRows / 2;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // The lane's two columns of each quarter.
  const auto pair = [&](int row, int first_column) -> float2& {
    return reinterpret_cast<float2&>(scratch[row][first_column + lane % 4 * 2]);
  };
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    pair(TileRow(0), n * kHalf) = make_float2(tile[n][0], tile[n][1]);
    pair(TileRow(2), n * kHalf) = make_float2(tile[n][2], tile[n][3]);
  }
  __syncwarp();
  // Each lane computes a row of A' or of D'.
  const int first = lane / kHalf % 2 * kHalf;
  const int row = lane % kHalf;
  float x[kHalf];
#pragma unroll
  for (int i = 0; i < kHalf; ++i) x[i] = i == row ? 1 : 0;
#pragma unroll
  for (int k = kHalf - 1; k > 0; --k) {
#pragma unroll
    for (int quad = 0; quad < k; quad += 4) {
      const float4 g =
          reinterpret_cast<const float4&>(scratch[first + k][first + quad]);
      const float of_quad[] = {g.x, g.y, g.z, g.w};
#pragma unroll
      for (int j = quad; j < quad + 4; ++j) {
        if (j < k) x[j] += of_quad[j % 4] * x[k];
      }
    }
  }
  __syncwarp();
  if (lane < kTileRows) {
    auto* const to = reinterpret_cast<float4*>(&scratch[first + row][first]);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
  }
  __syncwarp();
  const float* const d = &scratch[kHalf + lane / 4][kHalf];
  float2 db = {0, 0};
#pragma unroll
  for (int m = 0; m < kHalf; ++m) {
    const float2 b = pair(kHalf + m, 0);
    db.x += d[m] * b.x;
    db.y += d[m] * b.y;
  }
  float2 dba = {0, 0};
#pragma unroll
  for (int m = 0; m < kHalf; ++m) {
    const float2 a = pair(m, 0);
    const float of_row = __shfl_sync(~0u, m % 2 == 0 ? db.x : db.y, m / 2, 4);
    dba.x += of_row * a.x;
    dba.y += of_row * a.y;
  }
  const float2 a = pair(lane / 4, 0);
  const float2 own = pair(kHalf + lane / 4, kHalf);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool is_one = TileColumn(0, r) == TileRow(0);
    tile[0][r] = is_one ? 0 : r == 0 ? a.x : a.y;
    tile[0][2 + r] = r == 0 ? dba.x : dba.y;
    tile[1][r] = 0;
    tile[1][2 + r] = is_one ? 0 : r == 0 ? own.x : own.y;
  }
}

// A warp's row of blocks of the solve matrix or of the readout matrix.
class AloneRow {
 public:
  __device__ AloneRow(AloneShared& s, bool solves)
      : s_(s),
        solves_(solves),
        row_(static_cast<int>(threadIdx.x) / 32 % kGroupWarps) {}

  // Called by the warps of a warpgroup. used: the number of blocks that the
  // tree's nodes occupy.
  __device__ void Build(int used) {
    TileSum products[kAloneBlocks];
    Multiply(products);
    if (row_ >= used) return;
    WaitFull(s_.gates_full);
    ReadRowScales();
    SplitBlock* const blocks =
        (solves_ ? s_.matrices.solve : s_.matrices.readout) +
        BlockIndex{row_, 0}.Number();
#pragma unroll 1
    for (int j = 0; j <= row_; ++j) {
      Scale(products[0], j);
      if (solves_ && j == row_) InvertDiagonal(products[0], s_.scratch[row_]);
      blocks[j].Store(products[0]);
      DropFirst(products);
    }
    ArriveLanes(solves_ ? &s_.solve_full[row_] : &s_.readout_full[row_]);
  }

 private:
  // Computes k_i k_j, or q_i k_j.
  __device__ void Multiply(TileSum (&products)[kAloneBlocks]) {
    auto& d = reinterpret_cast<float(&)[8 * kAloneBlocks]>(products);
    const auto& left = solves_ ? s_.keys : s_.queries;
    WaitFull(s_.keys_full);
    if (!solves_) WaitFull(s_.queries_full);
    WgmmaFence();
#pragma unroll
    for (int step = 0; step < kKeyDim / 16; ++step) {
      Wgmma64(d, RowsOperand(left, step), RowsOperand(s_.keys, step), step > 0);
    }
    WgmmaCommit();
    WgmmaWait<0>();
    WgmmaResults(d);
  }

  __device__ void ReadRowScales() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row_ * kTileRows + TileRow(2 * r);
      const auto& head = s_.gates.heads[0];
      gamma_[r] = head.gamma[i];
      scale_[r] =
          solves_ ? -head.beta[i] * s_.gates.k_scale[i] : s_.gates.q_scale[i];
      const uint32_t* const words = s_.gates.ancestors[i];
      columns_[r] = static_cast<uint64_t>(words[1]) << 32 | words[0];
      if (solves_) columns_[r] &= ~(uint64_t{1} << i);
    }
  }

  // Scales the block of column `column` to -g, or to the readout.
  __device__ void Scale(TileSum& tile, int column) const {
    const int first = column * kTileRows + TileColumn(0, 0);
    const uint32_t columns[] = {static_cast<uint32_t>(columns_[0] >> first),
                                static_cast<uint32_t>(columns_[1] >> first)};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int j = first + 8 * n;
      // Gamma and the scales of keys j and j + 1.
      const float4 gammas =
          *reinterpret_cast<const float4*>(&s_.gates.heads[0].gamma[j]);
      const float2 scales =
          *reinterpret_cast<const float2*>(&s_.gates.k_scale[j]);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float2 gamma = r % 2 == 0 ? make_float2(gammas.x, gammas.y)
                                        : make_float2(gammas.z, gammas.w);
        const float2 own = gamma_[r / 2];
        const bool is_used = columns[r / 2] >> (8 * n + r % 2) & 1;
        // Only ancestors' decays are used, which never exceed 1.
        const float difference = (own.x - gamma.x) + (own.y - gamma.y);
        const float decay = ExpOfTwo(is_used ? difference : -INFINITY);
        tile[n][r] *=
            scale_[r / 2] * (r % 2 == 0 ? scales.x : scales.y) * decay;
      }
    }
  }

  AloneShared& s_;
  const bool solves_;
  const int row_;
  // Gates and columns of the lane's two rows.
  float2 gamma_[2];
  float scale_[2];
  uint64_t columns_[2];  // Which of their elements are not 0.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_MATRIX_CUH_
