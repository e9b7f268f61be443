// What a block of threads of verification does where few requests leave the GPU
// to latency: a tile of the columns of one head, whose work is spread over the
// block's warps. For each group of 16 columns a warp solves for U and one reads
// O out; the others build the matrices meanwhile. Code that runs once should be
// short: one code serves trees of every size, by numbers of 16-node blocks that
// are compared at run time.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_FEW_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_FEW_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_block.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"
#include "kernels/cuda/verify/verify_few_products.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

template <int kNodeBlocks, int kGroups, int kNumWarps>
struct FewConfig {
  static constexpr int kBlocks = kNodeBlocks;  // Of 16 nodes, at most.
  static constexpr int kNodes = kBlocks * kTileRows;
  static constexpr int kColumnGroups = kGroups;
  static constexpr int kTileColumns = kGroups * kColumns;
  static constexpr int kTiles = kValueDim / kTileColumns;  // Of a head.

  static constexpr int kWarps = kNumWarps;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kColumnWarps = 2 * kGroups;
  static constexpr int kBuildWarps = kWarps - kColumnWarps;
};

// The rows of the state of a tile's columns, each 32 bytes longer, so that
// equal columns of four successive rows are in different banks.
template <int kRows>
struct TileState {
  static constexpr int kChunks = kKeyDim / 4;
  uint4 chunk[kRows][kChunks + 2];

  // Brings them on their way, or clears them if there is no `state`, with
  // kWarps warps.
  template <int kWarps>
  __device__ void LoadAsync(const float* state) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < (kRows + kWarps - 1) / kWarps; ++n) {
      const int row = warp + n * kWarps;
      if (row >= kRows) break;
      CopyAsync16(SharedAddress(&chunk[row][lane]),
                  state + row * kKeyDim + lane * 4, state != nullptr);
    }
  }
  // Key columns 16 step .. + 15 of the rows of a group of 16, as a left
  // operand.
  __device__ void Load(int group, int step, SplitOperand& a) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int t = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = group * kTileRows + lane / 4 + i % 2 * 8;
      const int c = step * 4 + i / 2 * 2 + t / 2;
      const float2 x = reinterpret_cast<const float2*>(&chunk[row][c])[t % 2];
      SplitPair(x.x, x.y, a.high[i], a.low[i]);
    }
  }
};

template <typename C>
struct FewShared {
  NodeRows<C::kNodes> keys;
  NodeRows<C::kNodes> queries;
  TreeMatrices<C::kBlocks> matrices;
  TileState<C::kTileColumns> state;
  TileValues<C::kColumnGroups, C::kBlocks> values;
  TreeGates<C::kNodes, 1> gates;
  uint4 u[C::kColumnGroups][C::kBlocks][2][32];  // Blocks of U^T.
  // What others wait for: finished gates, matrices, blocks of U.
  uint64_t gates_full;
  uint64_t solve_full;
  uint64_t readout_full;
  uint64_t u_full[C::kColumnGroups][C::kBlocks];
};

// By all threads; before use the block must synchronise.
template <typename C>
__device__ void InitBarriers(FewShared<C>& s) {
  const int n = static_cast<int>(threadIdx.x);
  if (n < C::kColumnGroups * C::kBlocks)
    InitLaneBarrier(&s.u_full[0][0] + n, 1);
  if (n == 32) InitLaneBarrier(&s.gates_full, C::kNodes / 32);
  if (n == 64) InitLaneBarrier(&s.solve_full, C::kBuildWarps);
  if (n == 96) InitLaneBarrier(&s.readout_full, C::kBuildWarps);
}

// The tile's columns of the state; null: they are zero.
template <typename C>
__device__ const float* StateOfTile(const GdnCoreParams& p,
                                    const LayerTile& tile) {
  if (tile.from_zero) return nullptr;
  return HeadState(p.shape, p.states, tile.slot, p.layer, tile.head) +
         tile.column * kKeyDim;
}

// Keys and queries, once they have been written.
template <typename C>
__device__ void LoadKeys(const GdnCoreParams& p, const LayerTile& tile,
                         int padded, FewShared<C>& s) {
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const int64_t stride = p.shape.key_width();
  s.keys.template LoadAsync<C::kThreads>(factors.k(tile.first, tile.key_head),
                                         stride, tile.count, padded);
  s.queries.template LoadAsync<C::kThreads>(
      As<BFloat16>(p.q) + tile.first * stride + tile.key_head * kKeyDim, stride,
      tile.count, padded);
}

template <typename C>
__device__ void LoadValues(const GdnCoreParams& p, const LayerTile& tile,
                           int padded, FewShared<C>& s) {
  constexpr int kVectors = C::kTileColumns / 8;
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const BFloat16* v = factors.v(tile.first, tile.head) + tile.column;
  static_assert(C::kNodes * kVectors <= C::kThreads);
  const int node = static_cast<int>(threadIdx.x) / kVectors;
  const int vector = static_cast<int>(threadIdx.x) % kVectors;
  if (node >= padded) return;
  const bool valid = node < tile.count;
  CopyAsync16(
      SharedAddress(s.values.At(node, vector)),
      v + (valid ? node : 0) * static_cast<int64_t>(p.shape.value_width()) +
          vector * 8,
      valid);
}

// A node's gates in a thread, of the block's last ones.
template <typename C>
using Gates = NodeGates<C::kNodes / 32>;

// What is scaled by the path to the thread's node, when all gates are stored
// and the scales of keys and queries are there. `decay`: along the path.
template <typename C>
__device__ void FinishGates(FewShared<C>& s, const Gates<C>& gates,
                            float decay) {
  s.gates.SetScales(s.gates.heads[0], gates.node, decay);
#if __CUDA_ARCH__ >= 900
  ArriveLanes(&s.gates_full);
#endif
}
// By all warps.
template <typename C>
__device__ void WaitForGates(const FewShared<C>& s) {
#if __CUDA_ARCH__ >= 900
  WaitBarrier(AddressOf(&s.gates_full), 0);
#else
  __syncthreads();
#endif
}

// The matrices that are solved by, or that are read out by, were built: what
// was written before is read after. On sm_90 and later the builders go on;
// before, all warps meet once.
template <typename C>
__device__ void GiveMatrices(const FewShared<C>& s, bool is_readout) {
#if __CUDA_ARCH__ >= 900
  ArriveLanes(is_readout ? &s.readout_full : &s.solve_full);
#else
  if (is_readout) __syncthreads();
#endif
}
template <typename C>
__device__ void TakeMatrices(const FewShared<C>& s, bool is_readout) {
#if __CUDA_ARCH__ >= 900
  WaitBarrier(AddressOf(is_readout ? &s.readout_full : &s.solve_full), 0);
#else
  __syncthreads();
#endif
}

// The matrices.
template <typename C>
__device__ void BuildMatrices(FewShared<C>& s, int used) {
  using Matrices = TreeMatrices<C::kBlocks>;
  constexpr int kBuilders = C::kBuildWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32 - C::kColumnWarps;
  const int num_tiles = Matrices::template NumTiles<kBuilders>(used, warp);
  typename Matrices::Tiles tiles;
  const auto multiply = [&](int n) {
    tiles.at = Matrices::template TileAt<kBuilders>(used, warp, n);
    tiles.Multiply(s.keys, s.queries);
  };
  if (num_tiles > 0) multiply(0);
  WaitForGates(s);
#pragma unroll 1
  for (int n = 0; n < num_tiles; ++n) {
    if (n > 0) multiply(n);
    tiles.Scale(s.gates, 0);
    s.matrices.StoreSolve(tiles);
    if (n + 1 == num_tiles) GiveMatrices(s, /*is_readout=*/false);
    s.matrices.StoreReadout(tiles);
  }
  if (num_tiles == 0) GiveMatrices(s, /*is_readout=*/false);
  GiveMatrices(s, /*is_readout=*/true);
}

// The group's columns of the state times the first kUsed blocks of rows.
template <typename C, int kUsed>
__device__ void MultiplyBlocks(const FewShared<C>& s, int group,
                               const NodeRows<C::kNodes>& rows,
                               TileSum (&sums)[C::kBlocks]) {
#pragma unroll 2
  for (int step = 0; step < kKeyDim / 16; ++step) {
    SplitOperand a;
    s.state.Load(group, step, a);
    uint32_t b[kUsed][4];
#pragma unroll
    for (int block = 0; block < kUsed; ++block) {
      rows.LoadRight(block, step, b[block]);
    }
    // Products that follow each other do not wait for each other.
#pragma unroll
    for (int block = 0; block < kUsed; ++block) {
      MultiplyAdd(sums[block][0], a.high, b[block][0], b[block][1]);
      MultiplyAdd(sums[block][1], a.high, b[block][2], b[block][3]);
    }
#pragma unroll
    for (int block = 0; block < kUsed; ++block) {
      MultiplyAdd(sums[block][0], a.low, b[block][0], b[block][1]);
      MultiplyAdd(sums[block][1], a.low, b[block][2], b[block][3]);
    }
  }
}
// Calls wait(), which returns when the rows are there. Sums of blocks behind
// those in use may be anything.
template <typename C, typename Wait>
__device__ void MultiplyTileState(const FewShared<C>& s, int group, int used,
                                  const NodeRows<C::kNodes>& rows,
                                  const Wait& wait,
                                  TileSum (&sums)[C::kBlocks]) {
  constexpr int kHalf = C::kBlocks / 2;
  constexpr int kQuarter = C::kBlocks / 4;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (C::kColumnGroups == 4) {
    StateOperands<TileState<C::kTileColumns>> state(s.state, group);
    wait();
    if (used <= kQuarter) {
      state.template Multiply<kQuarter>(rows, sums);
    } else if (used <= kHalf) {
      state.template Multiply<kHalf>(rows, sums);
    } else {
      state.template Multiply<C::kBlocks>(rows, sums);
    }
    return;
  }
#endif
  wait();
  if (used <= kQuarter) {
    MultiplyBlocks<C, kQuarter>(s, group, rows, sums);
  } else if (used <= kHalf) {
    MultiplyBlocks<C, kHalf>(s, group, rows, sums);
  } else {
    MultiplyBlocks<C, C::kBlocks>(s, group, rows, sums);
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_FEW_CUH_
