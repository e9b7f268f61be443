// The work of a block of verification where few requests leave the GPU bound by
// latency: a tile of the columns of one head, spread over the block's warps.
// For each group of 16 columns one warp solves for U and one reads O out; the
// others build the matrices meanwhile. Code that runs once should be short, so
// one instance serves trees of every size, with numbers of 16-node blocks that
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
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

template <int kNodeBlocks, int kGroups, int kNumWarps>
struct FewConfig {
  static constexpr int kBlocks = kNodeBlocks;  // Blocks of 16 nodes, at most.
  static constexpr int kNodes = kBlocks * kTileRows;
  static constexpr int kColumnGroups = kGroups;
  static constexpr int kTileColumns = kGroups * kColumns;
  static constexpr int kTiles = kValueDim / kTileColumns;  // In a head.

  static constexpr int kWarps = kNumWarps;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kColumnWarps = 2 * kGroups;
  static constexpr int kBuildWarps = kWarps - kColumnWarps;
};

// The rows of the state of a tile's columns. Within a row the 16-byte chunks
// are permuted, so that equal columns of four successive rows are in different
// banks.
template <int kRows>
struct TileState {
  static constexpr int kChunks = kKeyDim / 4;
  uint4 chunk[kRows][kChunks];

  // Copies the rows, or clears them if `state` is null, with kWarps warps.
  template <int kWarps>
  __device__ void LoadAsync(const float* state) {
    static_assert(kWarps % 4 == 0 && kChunks == 32);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < (kRows + kWarps - 1) / kWarps; ++n) {
      const int row = warp + n * kWarps;
      if (row >= kRows) break;
      CopyAsync16(SharedAddress(&chunk[row][lane ^ warp % 4 * 2]),
                  state + row * kKeyDim + lane * 4, state != nullptr);
    }
  }

  // Key columns 16 step .. + 15 of the rows of a group of 16, as a left
  // operand.
  __device__ void Load(int group, int step, SplitOperand& a) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int t = lane % 4;
    const int permuted = lane / 4 % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = group * kTileRows + lane / 4 + i % 2 * 8;
      const int c = (step * 4 + i / 2 * 2 + t / 2) ^ permuted;
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
  uint4 u[C::kColumnGroups][2][2][32];  // Block j of U^T in slot j % 2.
  uint64_t gates_full;                  // Paths are summed up.
};

template <typename C>
__device__ void LoadTileState(const GdnCoreParams& p, const LayerTile& tile,
                              FewShared<C>& s) {
  const float* state = nullptr;
  if (!tile.from_zero) {
    state = HeadState(p.shape, p.states, tile.slot, p.layer, tile.head) +
            tile.column * kKeyDim;
  }
  s.state.template LoadAsync<C::kWarps>(state);
  CommitCopies();
}

// Loads keys and queries, which must have been written.
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

// The gates of a node, held by one of the block's last threads.
template <typename C>
using Gates = NodeGates<C::kNodes / 32>;

// Sums up the paths when all gates are stored. Called by the nodes' threads,
// which are builders as well; all builders wait in WaitForPaths().
template <typename C>
__device__ void SumPaths(FewShared<C>& s, const Gates<C>& gates) {
  const float decay = s.gates.SumPath(s.gates.heads[0], gates.node);
  s.gates.SetScales(s.gates.heads[0], gates.node, decay);
  ArriveLanes(&s.gates_full);
}
template <typename C>
__device__ void WaitForPaths(const FewShared<C>& s) {
#if __CUDA_ARCH__ >= 900
  WaitBarrier(AddressOf(&s.gates_full), 0);
#else
  NamedBarrier<32 * C::kBuildWarps>(kGatesBarrier);
#endif
}

// Builds the matrices.
template <typename C>
__device__ void BuildMatrices(FewShared<C>& s, const Gates<C>& gates,
                              int used) {
  using Matrices = TreeMatrices<C::kBlocks>;
  constexpr int kBuilders = C::kBuildWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32 - C::kColumnWarps;
  const int num_tiles = Matrices::template NumTiles<kBuilders>(used, warp);
  typename Matrices::Tiles tiles;
  const auto multiply = [&](int n) {
    tiles.at = Matrices::template TileAt<kBuilders>(used, warp, n);
    tiles.Multiply(s.keys, s.queries);
  };
  if (gates.node >= 0) SumPaths(s, gates);
  if (num_tiles > 0) multiply(0);
  WaitForPaths(s);
#pragma unroll 1
  for (int n = 0; n < num_tiles; ++n) {
    if (n > 0) multiply(n);
    tiles.Scale(s.gates, 0);
    s.matrices.Store(tiles);
  }
}

// Multiplies the group's columns of the state by the first kUsed blocks of
// rows.
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
    // Successive products do not depend on each other.
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
// Sums of blocks after those in use may be anything.
template <typename C>
__device__ void MultiplyTileState(const FewShared<C>& s, int group, int used,
                                  const NodeRows<C::kNodes>& rows,
                                  TileSum (&sums)[C::kBlocks]) {
  if (used <= C::kBlocks / 4) {
    MultiplyBlocks<C, C::kBlocks / 4>(s, group, rows, sums);
  } else if (used <= C::kBlocks / 2) {
    MultiplyBlocks<C, C::kBlocks / 2>(s, group, rows, sums);
  } else {
    MultiplyBlocks<C, C::kBlocks>(s, group, rows, sums);
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_FEW_CUH_
