// The warpgroups of gdn_verify_long.cu that build M = C (I + G)^-1 of one head
// after another, with which O = D_P Q S + M R. They work in blocks of 64 nodes.
// The first group builds M_11, the second M_22 and M_21:
//
//   M_11 (I + G_11) = C_11
//   M_22 (I + G_22) = C_22
//   M_21 (I + G_11) = C_21 - M_22 G_21
//
// Each is found by substitution over blocks of 16, with a warp for each row of
// them:
//
//   M_ij = (C_ij - sum over k > j of M_ik G_kj) (I + G_jj)^-1
//
// The groups run the same code as far as they can, to keep it small.
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
        half_(__shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128 - 1, 0)) {}

  __device__ __forceinline__ void Run() {
#pragma unroll 1
    for (;;) {
      header_at_.WaitFull(s_.headers_full);
      const HeadHeader header = s_.headers[header_at_.stage];
      if (header.count == 0) break;
      gates_ = &s_.gates[gates_at_.stage];
      Build(header.ends);
      FenceForAsync();
      ArriveWarp(&s_.matrix_full);
      if (header.ends) rows_at_.Advance();
      gates_at_.Advance();
      header_at_.Advance();
      head_at_.Advance();
    }
  }

 private:
  using Products = float[32];  // 64 rows by 64 rows, in a warpgroup.
  using Row = SplitOperand[kHalfTiles];

  __device__ static int Warp() {
    return static_cast<int>(threadIdx.x / 32) % 4;
  }
  __device__ static TileSum& TileOf(Products& products, int n) {
    return reinterpret_cast<TileSum&>(products[8 * n]);
  }

  __device__ __forceinline__ void Build(bool rows_end) {
    const int own = half_ * kHalfNodes;
    Products solve;
    Products readout;
    Products lower;
    rows_at_.WaitFull(&s_.rows_full[0]);
    MultiplyNodes(rows_, own, own, solve);
    gates_at_.WaitFull(s_.gates_full);
    WgmmaWait<0>();
    WgmmaResults(solve);
    ScaleSolve(solve);
    rows_at_.WaitFull(&s_.rows_full[1]);
    MultiplyNodes(rows_, kLongNodes + own, own, readout);
    head_at_.WaitEmpty(&s_.solve_empty);
    __syncwarp();
    StoreSolve(s_.solve[half_], solve);
    WgmmaWait<0>();
    WgmmaResults(readout);
    // Keys of the second half, or queries, times keys of the first.
    MultiplyNodes(rows_, half_ * kLongNodes + kHalfNodes, 0, lower);
    ScaleReadout<true>(own, readout);
    WgmmaWait<0>();
    WgmmaResults(lower);
    if (rows_end) ArriveWarp(&s_.rows_empty);
    ScaleReadout<false>(kHalfNodes, lower);
    ArriveLanes(s_.gates_empty + gates_at_.stage);
    if (half_ == 0) {
      StoreCoupling(lower);
      FenceForAsync();
      ArriveLanes(&s_.coupling_full);
    }
    head_at_.Meet(&s_.solve_full[half_]);
    Row m;
    Substitute(s_.solve[half_], Warp(), readout, m);
    if (half_ == 0) {
      ArriveLanes(&s_.solve_empty);
      WaitForPlace();
      StoreMatrix(0, m);
    } else {
      head_at_.WaitFull(&s_.coupling_full);
      __syncwarp();
      AddCoupled(m, lower);
      Row below;
      Substitute(s_.solve[0], kHalfTiles - 1, lower, below);
      ArriveLanes(&s_.solve_empty);
      WaitForPlace();
      StoreMatrix(1, below);
      StoreMatrix(2, m);
    }
  }

  // Waits until the last readers of M are done with it.
  __device__ __forceinline__ void WaitForPlace() {
    head_at_.WaitEmpty(&s_.matrix_empty);
    __syncwarp();
  }

  // exp(Gamma_i - Gamma_j), j an ancestor of i.
  __device__ static float Decay(const NodeScales& end,
                                const NodeScales& start) {
    return ExpOfTwo((end.gamma.x - start.gamma.x) +
                    (end.gamma.y - start.gamma.y));
  }

  // Scales k k^T of the half's nodes, rows j by rows i, to -G_ij.
  __device__ __forceinline__ void ScaleSolve(Products& products) const {
    const int own = half_ * kHalfNodes;
    const int first = own + Warp() * kTileRows;
    NodeScales start[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) start[h] = gates_->node[first + TileRow(2 * h)];
#pragma unroll
    for (int n = 0; n < kHalfTiles; ++n) {
      if (n < Warp()) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int i = own + n * kTileRows + TileColumn(c / 2, c % 2);
        const NodeScales end = gates_->node[i];
        const uint32_t bits = gates_->ancestors[i][first / 32];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int j = first + TileRow(2 * h);
          const float decay = Decay(end, start[h]);
          float& x = products[8 * n + c / 2 * 4 + 2 * h + c % 2];
          // Rows after the tree's last may hold anything.
          const bool counts = (bits >> j % 32 & 1) != 0 && i != j;
          x = counts ? x * (-end.key_factor * start[h].k_scale * decay) : 0;
        }
      }
    }
  }

  // Stores a block on the diagonal of the matrix over halves: -G_ij, or on its
  // own diagonal (I + G)^-1 - I, so that the identity part stays exact. They
  // are stored as transposes, which are right operands.
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

  // Scales products of rows i from `first` on. With kIsDiagonal they are q k^T
  // of the half's own nodes and become C_ij = exp(Gamma_i - Gamma_j) q_i k_j.
  // Otherwise they are of the second half's rows by the first's: in the second
  // group q k^T, which becomes C_ij, in the first k k^T, which becomes -G_ij.
  template <bool kIsDiagonal>
  __device__ __forceinline__ void ScaleReadout(int first,
                                               Products& products) const {
    const int column = kIsDiagonal ? first : 0;
    NodeScales end[2];
    float scale[2];
    uint32_t bits[2][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = first + Warp() * kTileRows + TileRow(2 * h);
      end[h] = gates_->node[i];
      scale[h] =
          kIsDiagonal || half_ == 1 ? gates_->q_scale[i] : -end[h].key_factor;
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        bits[h][w] = gates_->ancestors[i][column / 32 + w];
      }
    }
#pragma unroll
    for (int n = 0; n < kHalfTiles; ++n) {
      if (kIsDiagonal && n > Warp()) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = column + n * kTileRows + TileColumn(c / 2, c % 2);
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

  // Solves tiles 0 .. last of the warp's row of M, from right to left; the
  // tiles after `last` become zero. Each tile is subtracted from those before
  // it as soon as it is known.
  __device__ __forceinline__ void Substitute(
      const SplitBlock (&solve)[kHalfTriangle], int last, Products& sums,
      Row& m) {
#pragma unroll
    for (int j = kHalfTiles - 1; j >= 0; --j) {
      m[j] = {};
      if (j > last) continue;
      TileSum& sum = TileOf(sums, j);
      SplitTile(sum, m[j]);
      MultiplyAddBlockApart(sum, m[j], solve[BlockIndex{j, j}.Number()]);
      SplitTile(sum, m[j]);
#pragma unroll
      for (int i = j - 1; i >= 0; --i) {
        const SplitBlock& block = solve[BlockIndex{j, i}.Number()];
        // The tile that is solved next must not wait.
        if (i + 1 == j) {
          MultiplyAddBlockApart(TileOf(sums, i), m[j], block);
        } else {
          MultiplyAddBlock(TileOf(sums, i), m[j], block);
        }
      }
    }
  }

  // Stores rows of -G_21 in the coupling, transposed.
  __device__ __forceinline__ void StoreCoupling(Products& rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane / 16 * 8 + lane % 8;
    const int unit = (2 * Warp() + lane / 8 % 2) ^ row % 8;
    const uint32_t to = AddressOf(&s_.coupling.part[0][row][unit]);
#pragma unroll
    for (int j = 0; j < kHalfTiles; ++j) {
      SplitOperand tile;
      SplitTile(TileOf(rows, j), tile);
      const uint32_t at = to + j * kTileRows * 128;
      StoreMatrices<true>(at, tile.high);
      StoreMatrices<true>(at + sizeof(s_.coupling.part[0]), tile.low);
    }
  }

  // sums -= M_22 G_21
  __device__ __forceinline__ void AddCoupled(const Row& m, Products& sums) {
    const uint64_t coupling = WgmmaOperand(AddressOf(&s_.coupling));
    WgmmaFence();
#pragma unroll
    for (int k = 0; k < kHalfTiles; ++k) {
      const uint64_t high = WgmmaOperandBehind(coupling, k * 32);
      const uint64_t low =
          WgmmaOperandBehind(coupling, k * 32 + sizeof(s_.coupling.part[0]));
      MultiplyRows<kHalfNodes>(sums, m[k].high, high, true);
      MultiplyRows<kHalfNodes>(sums, m[k].low, high, true);
      MultiplyRows<kHalfNodes>(sums, m[k].high, low, true);
    }
    WgmmaCommit();
    WgmmaWait<0>();
    WgmmaResults(sums);
  }

  // Stores the warp's rows of block `number` of M.
  __device__ __forceinline__ void StoreMatrix(int number, const Row& rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row =
        number * kHalfNodes + Warp() * kTileRows + lane / 8 % 2 * 8 + lane % 8;
    uint32_t to = AddressOf(&s_.matrix.part[0][row][lane / 16 ^ row % 8]);
    // Makes the compiler keep one address from head to head instead of four.
    asm volatile("" : "+r"(to));
#pragma unroll
    for (int j = 0; j < kHalfTiles; ++j) {
      const uint32_t at = to ^ 32 * j;
      StoreMatrices<false>(at, rows[j].high);
      StoreMatrices<false>(at + sizeof(s_.matrix.part[0]), rows[j].low);
    }
  }

  // Stores four 8x8 matrices of 16-bit elements as the warp holds them, or
  // their transposes: lane 8 m + i has the address of row i of matrix m.
  template <bool kTransposed>
  __device__ static void StoreMatrices(uint32_t address,
                                       const uint32_t (&m)[4]) {
    if constexpr (kTransposed) {
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, "
          "%4};" ::"r"(address),
          "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
          : "memory");
    } else {
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::
              "r"(address),
          "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
          : "memory");
    }
  }

  LongShared& s_;
  const uint32_t rows_;
  const int half_;                    // 0 or 1, of the nodes.
  const LongGates* gates_ = nullptr;  // The head's.
  StageAt<kGateStages> gates_at_;
  StageAt<kHeadStages> header_at_;
  StageAt<1> rows_at_;
  StageAt<1> head_at_;
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_MATRIX_CUH_
