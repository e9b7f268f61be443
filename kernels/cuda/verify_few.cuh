// What a block of threads of verification does where few requests leave the GPU
// to latency: a tile of the columns of one head, whose work is spread over the
// block's warps. For each group of 16 columns a warp solves for U and one reads
// O out; the others build the matrices meanwhile. Code that runs once should be
// short: one code serves trees of every size, by numbers of 16-node blocks that
// are compared at run time.
#ifndef BOLE_KERNELS_CUDA_VERIFY_FEW_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_FEW_CUH_

#include <cstdint>

#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tree_gates.cuh"
#include "kernels/cuda/tree_matrices.cuh"
#include "kernels/cuda/verify_block.cuh"
#include "kernels/cuda/verify_columns.cuh"
#include "kernels/cuda/verify_tile.cuh"
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

// The rows of the state of a tile's columns, as LoadState() reads them.
template <int kGroups>
struct TileState {
  uint4 part[kGroups][kStateParts][kSlotBytes / sizeof(uint4)];

  // Copies them, or clears them if there is no `state`, with all threads.
  template <int kThreads>
  __device__ void LoadAsync(const float* state) {
    constexpr int kChunks = kKeyDim / 4;  // Of 16 bytes, of a row.
#pragma unroll 1
    for (int i = threadIdx.x; i < kGroups * kColumns * kChunks; i += kThreads) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      uint4* to = part[row / kColumns][chunk / 8] + row % kColumns * 8;
      CopyAsync16(SharedAddress(to + (chunk % 8 ^ row % 4 * 2)), state + i * 4,
                  state != nullptr);
    }
  }
};

template <typename C>
struct FewShared {
  NodeRows<C::kNodes> keys;
  NodeRows<C::kNodes> queries;
  TreeMatrices<C::kBlocks> matrices;
  TileState<C::kColumnGroups> state;
  TileValues<C::kColumnGroups, C::kBlocks> values;
  TreeGates<C::kNodes, 1> gates;
  uint4 u[C::kColumnGroups][2][2][32];  // Block j of U^T in place j % 2.
};

// A node's gates in a thread, of the block's last ones.
template <typename C>
using Gates = NodeGates<C::kNodes / 32>;

// Stores the gates of all nodes and sums up their paths. By the nodes' threads,
// which build as well: that keeps others from what they read.
template <typename C>
__device__ void SumPaths(FewShared<C>& s, Gates<C>& gates) {
  gates.Store(s.gates);
  NamedBarrier<C::kNodes>(kGatesBarrier);
  gates.decay = s.gates.SumPath(s.gates.heads[0], gates.node);
}

// The matrices.
template <typename C>
__device__ void BuildMatrices(FewShared<C>& s, const Gates<C>& gates,
                              int used) {
  using Matrices = TreeMatrices<C::kBlocks>;
  constexpr int kBuilders = C::kBuildWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32 - C::kColumnWarps;
  const int num_tiles = Matrices::template NumTiles<kBuilders>(used, warp);
  if (gates.node >= 0) {
    s.gates.SetScales(s.gates.heads[0], gates.node, gates.decay);
  }
  typename Matrices::Tiles tiles;
#pragma unroll 1
  for (int n = 0; n < num_tiles; ++n) {
    tiles.at = Matrices::template TileAt<kBuilders>(used, warp, n);
    tiles.Multiply(s.keys, s.queries);
    if (n == 0) NamedBarrier<32 * kBuilders>(kGatesBarrier);
    tiles.Scale(s.gates, 0);
    s.matrices.Store(tiles);
  }
  if (num_tiles <= 0) NamedBarrier<32 * kBuilders>(kGatesBarrier);
}

// The group's columns of the state times the first blocks of the rows of k or
// q.
template <typename C, int kUsed>
__device__ void MultiplyBlocks(const FewShared<C>& s, int group,
                               const NodeRows<C::kNodes>& rows,
                               TileSum (&sums)[C::kBlocks]) {
#pragma unroll 2
  for (int step = 0; step < kKeyDim / 16; ++step) {
    SplitOperand a;
    LoadState(
        reinterpret_cast<const unsigned char*>(s.state.part[group][step / 2]),
        step % 2, a);
    MultiplyState<kUsed>(a, step, rows, sums);
  }
}
// Sums of blocks behind those in use may be anything.
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

// sum += x B^T by products that do not wait for each other.
__device__ inline void MultiplyAddApart(TileSum& sum, const SplitOperand& x,
                                        const SplitBlock& block) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const uint4 b = block.rows[n][threadIdx.x % 32];
    float low[4] = {};
    float cross[4] = {};
    MultiplyAdd(low, x.low, b.x, b.y);
    MultiplyAdd(cross, x.high, b.z, b.w);
    MultiplyAdd(sum[n], x.high, b.x, b.y);
#pragma unroll
    for (int r = 0; r < 4; ++r) sum[n][r] += low[r] + cross[r];
  }
}

// The warp of a group that solves: hands each block of U to the one that reads
// out. Two places are enough: who writes the next block has met the reader
// after it read the one before. The block being solved is always right[0].
template <typename C>
__device__ void SolveGroup(FewShared<C>& s, int group, int used) {
  TileSum right[C::kBlocks] = {};
  MultiplyTileState<C>(s, group, used, s.keys, right);
  __syncthreads();
#pragma unroll
  for (int b = 0; b < C::kBlocks; ++b) {
    if (b >= used) break;
    FormRightSide(reinterpret_cast<const unsigned char*>(
                      s.values.part[group][b / kPartBlocks]),
                  b % kPartBlocks, s.gates.heads[0], b, right[b]);
  }
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int j = 0; j < used; ++j) {
    SplitOperand u;
    SplitTile(right[0], u);
    MultiplyAddApart(right[0], u, s.matrices.solve[BlockIndex{j, j}.Number()]);
    SplitTile(right[0], u);
    const uint32_t* h = u.high;
    const uint32_t* l = u.low;
    s.u[group][j % 2][0][lane] = {h[0], h[1], h[2], h[3]};
    s.u[group][j % 2][1][lane] = {l[0], l[1], l[2], l[3]};
    NamedBarrier<64>(kExchangeBarrier + group);
    if (j + 1 == used) break;
      // Of blocks behind the last, anything: nothing waits for the number.
#pragma unroll
    for (int b = 1; b < C::kBlocks; ++b) {
      const int row = min(j + b, C::kBlocks - 1);
      MultiplyAddApart(right[b], u,
                       s.matrices.solve[BlockIndex{row, j}.Number()]);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        right[b - 1][i / 4][i % 4] = right[b][i / 4][i % 4];
      }
    }
  }
}

// The warp that reads out: O^T of its columns.
template <typename C>
__device__ void ReadGroup(const FewShared<C>& s, int group, int used,
                          TileSum (&o)[C::kBlocks]) {
  MultiplyTileState<C>(s, group, used, s.queries, o);
  __syncthreads();
  ScaleReadout(s.gates.heads[0], o);
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int j = 0; j < used; ++j) {
    NamedBarrier<64>(kExchangeBarrier + group);
    const uint4 h = s.u[group][j % 2][0][lane];
    const uint4 l = s.u[group][j % 2][1][lane];
    const SplitOperand u = {{h.x, h.y, h.z, h.w}, {l.x, l.y, l.z, l.w}};
#pragma unroll
    for (int b = 0; b < C::kBlocks; ++b) {
      if (b < j || b >= used) continue;
      MultiplyAddBlock(o[b], u, s.matrices.readout[BlockIndex{b, j}.Number()]);
    }
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_FEW_CUH_
