// The warpgroups of gdn_verify_long.cu that build M = C (I + G)^-1 of one head
// after another, with which O = D_P Q S + M R. In blocks of 64 nodes, the first
// of one group, the others of the second:
//
//   M_11 (I + G_11) = C_11
//   M_22 (I + G_22) = C_22
//   M_21 (I + G_11) = C_21 - M_22 G_21
//
// each by substitution over blocks of 16, a warp for each row of them:
//
//   M_ij = (C_ij - sum over k > j of M_ik G_kj) (I + G_jj)^-1
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_MATRIX_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_MATRIX_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_long.cuh"
#include "kernels/cuda/verify/verify_products.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

class LongBuilder {
 public:
  __device__ explicit LongBuilder(LongShared& s)
      : s_(s),
        rows_(AddressOf(&s.rows)),
        half_(static_cast<int>(threadIdx.x) / 128 - 1) {}

  __device__ __forceinline__ void Run() {
    ClearMatrix();
#pragma unroll 1
    for (;;) {
      gates_at_.WaitFull(s_.headers_full);
      const HeadHeader header = s_.headers[gates_at_.stage];
      if (header.count == 0) break;
      gates_ = &s_.gates[gates_at_.stage];
      Build(header.count > kHalfNodes);
      FenceForAsync();
      ArriveWarp(&s_.matrix_full);
      ArriveLanes(s_.gates_empty + gates_at_.stage);
      if (header.ends) {
        ArriveWarp(&s_.rows_empty);
        rows_at_.Advance();
      }
      gates_at_.Advance();
      matrix_at_.Advance();
    }
  }

 private:
  // The half's own rows. What is above the diagonals is never written again.
  __device__ __forceinline__ void ClearMatrix() {
    const int first = half_ * kHalfNodes;
    const int units = (1 + half_) * kHalfNodes * 8;
    for (auto& part : s_.matrix.part) {
      for (int i = static_cast<int>(threadIdx.x) % 128; i < units; i += 128) {
        part[first + i / 8][i % 8] = make_uint4(0, 0, 0, 0);
      }
    }
  }

  using Products = float[32];  // Of 64 rows by 64 rows.

  __device__ static int Warp() {
    return static_cast<int>(threadIdx.x / 32) % 4;
  }
  __device__ static TileSum& TileOf(Products& products, int n) {
    return reinterpret_cast<TileSum&>(products[8 * n]);
  }

  // The second half of the nodes may be empty.
  __device__ __forceinline__ void Build(bool has_second) {
    if (half_ == 0 || has_second) {
      BuildHalf(has_second);
    } else {
      // Who builds nothing does not run ahead, either. These gates it has not
      // waited for; the next header comes when all others have read them.
      rows_at_.WaitFull(&s_.rows_full[1]);
      matrix_at_.WaitEmpty(&s_.matrix_empty);
    }
    if (has_second) coupling_at_.Advance();
    Meet();
  }

  // The half's warps.
  __device__ __forceinline__ void Meet() {
    met_at_.Meet(&s_.builders_met[half_]);
    met_at_.Advance();
  }

  __device__ __forceinline__ void BuildHalf(bool has_second) {
    const int own = half_ * kHalfNodes;
    Products products;
    Products readout;
    rows_at_.WaitFull(&s_.rows_full[0]);
    Multiply(own, own, products);
    gates_at_.WaitFull(s_.gates_full);
    WgmmaWait<0>();
    WgmmaResults(products);
    ScaleSolve(half_, half_, products);
    rows_at_.WaitFull(&s_.rows_full[1]);
    Multiply(kLongNodes + own, own, readout);
    if (half_ == 0) coupling_at_.WaitEmpty(&s_.coupling_empty);
    StoreSolve(s_.solve[half_], products);
    WgmmaWait<0>();
    WgmmaResults(readout);
    ScaleReadout(half_, half_, readout);
    if (half_ == 0 && has_second) BuildCoupling();
    Meet();
    Substitute(s_.solve[half_], Warp(), readout);
    if (half_ == 0) {
      WaitForPlace();
      StoreMatrix(0);
    } else {
      BuildCoupled();
    }
  }

  // -G_21, with which and with G_11 M_21 is built.
  __device__ __forceinline__ void BuildCoupling() {
    Products products;
    Multiply(0, kHalfNodes, products);
    WgmmaWait<0>();
    WgmmaResults(products);
    ScaleSolve(0, 1, products);
    StoreCoupling(products);
    FenceForAsync();
    ArriveLanes(&s_.coupling_full);
  }

  // M's last readers are done with it.
  __device__ __forceinline__ void WaitForPlace() {
    matrix_at_.WaitEmpty(&s_.matrix_empty);
    __syncwarp();
  }

  // M_21, after M_22.
  __device__ __forceinline__ void BuildCoupled() {
    Products products;
    Multiply(kLongNodes + kHalfNodes, 0, products);
    WgmmaWait<0>();
    WgmmaResults(products);
    ScaleReadout(1, 0, products);
    coupling_at_.WaitFull(&s_.coupling_full);
    __syncwarp();
    TakeOffCoupling(products);
    WaitForPlace();
    StoreMatrix(2);
    Substitute(s_.solve[0], kHalfTiles - 1, products);
    StoreMatrix(1);
    ArriveLanes(&s_.coupling_empty);
  }

  // 64 rows from `first` on times those from `second` on; the queries' are
  // behind the keys'.
  __device__ __forceinline__ void Multiply(int first, int second,
                                           Products& products) const {
    constexpr int kPanel = 2 * kLongNodes * 128;
    WgmmaFence();
#pragma unroll
    for (int step = 0; step < kKeyDim / 16; ++step) {
      const uint32_t at = rows_ + step / 4 * kPanel + step % 4 * 32;
      Wgmma64(products, WgmmaOperand(at + first * 128),
              WgmmaOperand(at + second * 128), step > 0);
    }
    WgmmaCommit();
  }

  // exp(Gamma_i - Gamma_j), j an ancestor of i.
  __device__ static float Decay(const NodeScales& end,
                                const NodeScales& start) {
    return ExpOfTwo((end.gamma.x - start.gamma.x) +
                    (end.gamma.y - start.gamma.y));
  }

  // From k k^T, rows j of half `from` by rows i of half `to`, to -G_ij.
  __device__ __forceinline__ void ScaleSolve(int from, int to,
                                             Products& products) const {
    const int first = from * kHalfNodes + Warp() * kTileRows;
    NodeScales start[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) start[h] = gates_->node[first + TileRow(2 * h)];
#pragma unroll
    for (int n = 0; n < kHalfTiles; ++n) {
      if (from == to && n < Warp()) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int i =
            to * kHalfNodes + n * kTileRows + TileColumn(c / 2, c % 2);
        const NodeScales end = gates_->node[i];
        const uint32_t bits = gates_->ancestors[i][first / 32];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int j = first + TileRow(2 * h);
          const float decay = Decay(end, start[h]);
          float& x = products[8 * n + c / 2 * 4 + 2 * h + c % 2];
          // Rows behind the tree may hold anything.
          const bool counts = (bits >> j % 32 & 1) != 0 && i != j;
          x = counts ? x * (-end.key_factor * start[h].k_scale * decay) : 0;
        }
      }
    }
  }

  // Of a block on the diagonal: -G_ij, or the transpose of (I + G)^-1 - I on
  // its own diagonal, so that the identity part stays exact. As transposes they
  // are right operands.
  __device__ __forceinline__ void StoreSolve(SplitBlock (&solve)[kHalfTriangle],
                                             Products& products) {
#pragma unroll
    for (int n = 0; n < kHalfTiles; ++n) {
      if (n < Warp()) continue;
      SplitBlock& block = solve[BlockIndex{n, Warp()}.Number()];
      if (n == Warp()) {
        PutFloats(TileOf(products, n), block);
      } else {
        block.Store(TileOf(products, n));
      }
    }
    InvertBlock</*kTransposed=*/true>(
        solve[BlockIndex{Warp(), Warp()}.Number()]);
  }

  __device__ __forceinline__ void StoreCoupling(Products& products) {
#pragma unroll
    for (int n = 0; n < kHalfTiles; ++n) {
      SplitOperand g;
      SplitTile(TileOf(products, n), g);
      StoreTile(s_.coupling, 0, n, g);
    }
  }

  // From q k^T: C_ij = exp(Gamma_i - Gamma_j) q_i k_j.
  __device__ __forceinline__ void ScaleReadout(int row, int column,
                                               Products& products) const {
    NodeScales end[2];
    float scale[2];
    uint32_t bits[2][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row * kHalfNodes + Warp() * kTileRows + TileRow(2 * h);
      end[h] = gates_->node[i];
      scale[h] = gates_->q_scale[i];
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        bits[h][w] = gates_->ancestors[i][2 * column + w];
      }
    }
#pragma unroll
    for (int n = 0; n < kHalfTiles; ++n) {
      if (row == column && n > Warp()) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j =
            column * kHalfNodes + n * kTileRows + TileColumn(c / 2, c % 2);
        const NodeScales start = gates_->node[j];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float decay = Decay(end[h], start);
          float& x = products[8 * n + c / 2 * 4 + 2 * h + c % 2];
          const bool counts = (bits[h][n / 2] >> j % 32 & 1) != 0;
          x = counts ? x * (start.k_scale * scale[h] * decay) : 0;
        }
      }
    }
  }

  // C_21 -= M_22 G_21
  __device__ __forceinline__ void TakeOffCoupling(Products& sums) {
    WgmmaFence();
#pragma unroll
    for (int k = 0; k < kHalfTiles; ++k) {
      const uint64_t high =
          WgmmaOperand(AddressOf(s_.coupling.part[0]) + k * 32);
      const uint64_t low =
          WgmmaOperand(AddressOf(s_.coupling.part[1]) + k * 32);
      MultiplyRows<kHalfNodes>(sums, m_[k].high, high, true);
      MultiplyRows<kHalfNodes>(sums, m_[k].low, high, true);
      MultiplyRows<kHalfNodes>(sums, m_[k].high, low, true);
    }
    WgmmaCommit();
    WgmmaWait<0>();
    WgmmaResults(sums);
  }

  // Tiles 0 .. last of the warp's row of M, from the right; none behind them.
  // Each is taken off those before it as soon as it is there.
  __device__ __forceinline__ void Substitute(
      const SplitBlock (&solve)[kHalfTriangle], int last, Products& sums) {
#pragma unroll
    for (int j = kHalfTiles - 1; j >= 0; --j) {
      m_[j] = {};
      if (j > last) continue;
      TileSum& sum = TileOf(sums, j);
      SplitTile(sum, m_[j]);
      MultiplyAddBlockApart(sum, m_[j], solve[BlockIndex{j, j}.Number()]);
      SplitTile(sum, m_[j]);
#pragma unroll
      for (int i = j - 1; i >= 0; --i) {
        MultiplyAddBlockApart(TileOf(sums, i), m_[j],
                              solve[BlockIndex{j, i}.Number()]);
      }
    }
  }

  // Block `number` of 64 rows.
  __device__ __forceinline__ void StoreMatrix(int number) {
#pragma unroll
    for (int j = 0; j < kHalfTiles; ++j) {
      StoreTile(s_.matrix, number * kHalfNodes, j, m_[j]);
    }
  }

  template <int kRows>
  __device__ static void StoreTile(SplitRows<kRows>& rows, int first, int tile,
                                   const SplitOperand& m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      rows.Put(first + Warp() * kTileRows + TileRow(i % 2 * 2), tile, i / 2,
               m.high[i], m.low[i]);
    }
  }

  LongShared& s_;
  const uint32_t rows_;
  const int half_;                    // 0 or 1.
  const LongGates* gates_ = nullptr;  // The head's.
  StageAt<kGateStages> gates_at_;
  StageAt<1> rows_at_;
  StageAt<1> matrix_at_;
  StageAt<1> coupling_at_;
  StageAt<1> met_at_;
  SplitOperand m_[kHalfTiles];  // The warp's row of the last block of M.
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_MATRIX_CUH_
