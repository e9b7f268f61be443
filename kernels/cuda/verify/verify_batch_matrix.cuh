// The warpgroup that builds M = C (I + G)^-1 of one head after another, with
// which O = D_P Q S + M R. M does not depend on the state, so it is ready when
// the products with the state are.
//
// M is found by block substitution from M (I + G) = C, one row of blocks at a
// time:
//
//   M_ij = (C_ij - sum over k > j of M_ik G_kj) (I + G_jj)^-1
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_MATRIX_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_MATRIX_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <typename C>
class MatrixBuilder {
 public:
  __device__ explicit MatrixBuilder(BatchShared<C>& s) : s_(s) {}

  __device__ __forceinline__ void Run() {
    // Clears M. What is above the diagonal is never written again.
    for (int i = static_cast<int>(threadIdx.x) % kBuilders;
         i < 2 * 8 * C::kNodes; i += kBuilders) {
      (&s_.matrix.part[0][0][0])[i] = make_uint4(0, 0, 0, 0);
    }
    StageAt<kRowStages> rows_at;
    bool begins = true;
#pragma unroll 1
    for (;;) {
      gates_at_.WaitFull(s_.headers_full);
      const HeadHeader header = s_.headers[gates_at_.stage];
      if (header.count == 0) break;
      if (begins) {
        rows_at.WaitFull(s_.rows_full);
        MultiplyNodes(AddressOf(&s_.rows[rows_at.stage]));
        ArriveWarp(s_.rows_empty + rows_at.stage);
        rows_at.Advance();
      }
      begins = header.ends;
      gates_at_.WaitFull(s_.gates_full);
      gates_ = &s_.gates[gates_at_.stage];
      solve_ = s_.solve[solve_at_.stage];
      Build();
      FenceForAsync();
      ArriveWarp(&s_.matrix_full);
      ArriveLanes(s_.gates_empty + gates_at_.stage);
      gates_at_.Advance();
      matrix_at_.Advance();
      solve_at_.Advance();
    }
  }

 private:
  using Products = float[32];  // 64 rows by 64 rows, in a warpgroup.
  using Row = TileSum[C::kBlocks];

  __device__ static int Warp() {
    return static_cast<int>(threadIdx.x / 32) % 4;
  }

  __device__ __forceinline__ void Build() {
    Row row;
    if constexpr (C::kBlocks == 2) {
      if (Warp() < 2) {
        StoreSolve(Warp(), keys_);
      } else {
        ScaleReadout(Warp() - 2, keys_, row);
      }
      StartSubstitution();
      if (Warp() >= 2) Substitute(Warp() - 2, row);
    } else {
      StoreSolve(Warp(), keys_);
      ScaleReadout(Warp(), queries_, row);
      StartSubstitution();
      Substitute(Warp(), row);
    }
  }

  // Waits until all solve blocks are stored and M may be written.
  __device__ __forceinline__ void StartSubstitution() {
    matrix_at_.Meet(&s_.solve_full);
    matrix_at_.WaitEmpty(&s_.matrix_empty);
  }

  // Multiplies the nodes' rows; heads with the same rows share the products.
  // With 32 nodes, keys and queries have 64 rows together: two warps have k
  // k^T, two q k^T.
  __device__ __forceinline__ void MultiplyNodes(uint32_t rows) {
    const uint64_t operand = WgmmaOperand(rows);
    Multiply(operand, 0, keys_);
    if constexpr (C::kBlocks > 2) Multiply(operand, C::kNodes, queries_);
    WgmmaWait<0>();
    WgmmaResults(keys_);
    if constexpr (C::kBlocks > 2) WgmmaResults(queries_);
  }

  // Multiplies 64 rows from `first` on by the first 64. The rows of the queries
  // follow those of the keys.
  __device__ static __forceinline__ void Multiply(uint64_t rows, int first,
                                                  Products& products) {
    constexpr int kPanel = 2 * C::kNodes * 128;
    WgmmaFence();
#pragma unroll
    for (int step = 0; step < kKeyDim / 16; ++step) {
      const uint64_t k =
          WgmmaOperandBehind(rows, step / 4 * kPanel + step % 4 * 32);
      Wgmma64(products, WgmmaOperandBehind(k, first * 128), k, step > 0);
    }
    WgmmaCommit();
  }

  // Turns products k k^T, rows j of block `column` times all rows i, into
  // -G_ij, and on the diagonal into (I + G)^-1 - I. They are stored as
  // transposes, which are right operands.
  __device__ __forceinline__ void StoreSolve(int column,
                                             const Products& products) {
    TileSum tile;
#pragma unroll
    for (int n = 0; n < C::kBlocks; ++n) {
      if (n == column) TakeTile(products, n, tile);
    }
    ScaleKeys<true>(column, column, tile);
    SplitBlock& diagonal = solve_[BlockIndex{column, column}.Number()];
    PutFloats(tile, diagonal);
    InvertBlock</*kTransposed=*/true>(diagonal);
#pragma unroll
    for (int n = 1; n < C::kBlocks; ++n) {
      if (n <= column) continue;
      TakeTile(products, n, tile);
      ScaleKeys<false>(n, column, tile);
      solve_[BlockIndex{n, column}.Number()].Store(tile);
    }
  }

  __device__ static void TakeTile(const Products& products, int n,
                                  TileSum& tile) {
#pragma unroll
    for (int i = 0; i < 8; ++i) tile[i / 4][i % 4] = products[8 * n + i];
  }

  template <bool kIsDiagonal>
  __device__ __forceinline__ void ScaleKeys(int row, int column,
                                            TileSum& tile) const {
    float2 from[2];
    float scale[2];
    uint32_t bit[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int j = column * kTileRows + TileRow(2 * h);
      from[h] = gates_->node[j].gamma;
      scale[h] = -gates_->node[j].k_scale;
      bit[h] = 1u << j % 32;
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int i = row * kTileRows + TileColumn(c / 2, c % 2);
      const NodeScales to = gates_->node[i];
      uint32_t bits = gates_->ancestors[i][column / 2];
      if (kIsDiagonal) bits &= ~(1u << i % 32);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float decay =
            ExpOfTwo((to.gamma.x - from[h].x) + (to.gamma.y - from[h].y));
        float& x = tile[c / 2][2 * h + c % 2];
        // Rows after the tree's last may hold anything.
        x = (bits & bit[h]) != 0 ? x * (to.key_factor * scale[h] * decay) : 0;
      }
    }
  }

  // Computes C_ij = exp(Gamma_i - Gamma_j) q_i k_j of a row of blocks from q
  // k^T.
  __device__ __forceinline__ void ScaleReadout(int row,
                                               const Products& products,
                                               Row& tiles) const {
    float2 to[2];
    float scale[2];
    uint32_t bits[2][C::kBlocks / 2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row * kTileRows + TileRow(2 * h);
      to[h] = gates_->node[i].gamma;
      scale[h] = gates_->q_scale[i];
#pragma unroll
      for (int w = 0; w < C::kBlocks / 2; ++w) {
        bits[h][w] = gates_->ancestors[i][w];
      }
    }
#pragma unroll
    for (int n = 0; n < C::kBlocks; ++n) {
      if (n > row) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = n * kTileRows + TileColumn(c / 2, c % 2);
        const NodeScales from = gates_->node[j];
        const uint32_t bit = 1u << j % 32;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float decay =
              ExpOfTwo((to[h].x - from.gamma.x) + (to[h].y - from.gamma.y));
          const float x = products[8 * n + c / 2 * 4 + 2 * h + c % 2];
          tiles[n][c / 2][2 * h + c % 2] =
              (bits[h][n / 2] & bit) != 0
                  ? x * (from.k_scale * scale[h] * decay)
                  : 0;
        }
      }
    }
  }

  // Turns C of a row of blocks into M. Each block is subtracted from those
  // before it as soon as it is known.
  __device__ __forceinline__ void Substitute(int row, Row& sums) {
#pragma unroll
    for (int j = C::kBlocks - 1; j >= 0; --j) {
      if (j > row) continue;
      SplitOperand m;
      SplitTile(sums[j], m);
      MultiplyAddBlockApart(sums[j], m, Solve(j, j));
      SplitTile(sums[j], m);
#pragma unroll
      for (int i = j - 1; i >= 0; --i) {
        // The block that is solved next must not wait.
        if (i + 1 == j) {
          MultiplyAddBlockApart(sums[i], m, Solve(j, i));
        } else {
          MultiplyAddBlock(sums[i], m, Solve(j, i));
        }
      }
      StoreBlock(row, j, m);
    }
  }

  __device__ const SplitBlock& Solve(int row, int column) const {
    return solve_[BlockIndex{row, column}.Number()];
  }

  __device__ void StoreBlock(int row, int column, const SplitOperand& m) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int offset =
          SplitMatrix<C::kNodes>::Offset(row * kTileRows + lane / 4 + i % 2 * 8,
                                         2 * column + i / 2) +
          lane % 4 * 4;
      *reinterpret_cast<uint32_t*>(Part(0) + offset) = m.high[i];
      *reinterpret_cast<uint32_t*>(Part(1) + offset) = m.low[i];
    }
    __syncwarp();
  }
  __device__ unsigned char* Part(int part) {
    return reinterpret_cast<unsigned char*>(s_.matrix.part[part]);
  }

  BatchShared<C>& s_;
  Products keys_;     // k k^T
  Products queries_;  // q k^T
  const typename BatchShared<C>::Gates* gates_ = nullptr;
  SplitBlock* solve_ = nullptr;
  StageAt<kGateStages> gates_at_;
  StageAt<1> matrix_at_;
  StageAt<kSolveStages> solve_at_;
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_MATRIX_CUH_
