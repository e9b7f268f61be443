// The work of a block of fused verification on the heads of a request, and the
// roles of its warps.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BLOCK_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BLOCK_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// How a block's work is divided among its warps. Throughput: eight warps have
// all columns of a head, process one head after another, and build the matrices
// as well. Latency (kIsSplit): the block has fewer columns of one head. Each
// group of 16 columns has a warp that solves for U and one that reads O out,
// and the other warps build the matrices meanwhile.
template <int kNodeBlocks, int kGroups, bool kSplitGroups, int kRingSlots,
          int kBlocksPerProcessor>
struct VerifyConfig {
  static constexpr int kBlocks = kNodeBlocks;  // Blocks of 16 nodes, at most.
  static constexpr int kNodes = kBlocks * kTileRows;
  static constexpr int kColumnGroups = kGroups;
  static constexpr bool kIsSplit = kSplitGroups;
  static constexpr int kSlots = kRingSlots;
  static constexpr int kPerProcessor = kBlocksPerProcessor;

  static constexpr int kWarps = kIsSplit ? 16 : 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kColumnWarps = kGroups * (kIsSplit ? 2 : 1);
  static constexpr int kBuildWarps = kIsSplit ? kWarps - kColumnWarps : kWarps;
  static constexpr int kTiles = kValueDim / kColumns / kGroups;
  // The most heads that a block processes one after another.
  static constexpr int kHeads = kIsSplit ? 1 : 4;
};

// Passes blocks of U^T from the warp that solves to the one that reads out.
template <typename C>
struct Exchange {
  uint4 u[C::kColumnGroups][2][2][32];  // Block j in slot j % 2.
};
struct NoExchange {};

template <typename C>
struct VerifyShared {
  NodeRows<C::kNodes> keys;
  NodeRows<C::kNodes> queries;
  TreeMatrices<C::kBlocks> matrices;
  uint4 ring[C::kColumnWarps][C::kSlots * kSlotBytes / sizeof(uint4)];
  TreeGates<C::kNodes, C::kHeads> gates;
  std::conditional_t<C::kIsSplit, Exchange<C>, NoExchange> exchange;
};

template <typename C>
using Stream = ColumnStream<C::kSlots, C::kBlocks>;

// A barrier of kThreads threads. `id` is at least 1; 0 is the whole block's.
template <int kThreads>
__device__ void NamedBarrier(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
enum : int { kGatesBarrier = 1, kExchangeBarrier = 2 };

// What a warp reads and writes for its first head.
struct Columns {
  const float* state;  // [16, 128], nullptr: zero.
  const BFloat16* v;   // 16 columns of the first node.
  BFloat16* out;       // The same columns.
  int64_t stride;      // From node to node, in v and out.
  int num_nodes;
  int num_heads;
};

__device__ inline Columns ColumnsAt(const GdnCoreParams& p, int slot,
                                    bool has_state,
                                    const HeadTree<BFloat16>& tree,
                                    int column) {
  const float* state = nullptr;
  if (has_state) {
    state = HeadState(p.shape, p.states, slot, p.layer, tree.head) +
            column * kKeyDim;
  }
  const int64_t stride = p.shape.value_width();
  return {.state = state,
          .v = tree.factors.v(tree.first, tree.head) + column,
          .out = As<BFloat16>(p.out) + tree.first * stride +
                 tree.head * kValueDim + column,
          .stride = stride,
          .num_nodes = tree.count,
          .num_heads = tree.num_heads};
}

// Builds the matrices of a head. With head 0 it first finishes the gates of all
// heads.
template <typename C>
__device__ void Build(VerifyShared<C>& s, int num_blocks, int num_heads,
                      int head) {
  using Matrices = TreeMatrices<C::kBlocks>;
  constexpr int kBuilders = C::kBuildWarps;
  const int warp = static_cast<int>(threadIdx.x / 32) - (C::kWarps - kBuilders);
  const int num_tiles =
      Matrices::template NumTiles<kBuilders>(num_blocks, warp);
  typename Matrices::Tiles tiles;
  const auto multiply = [&](int n) {
    tiles.at = Matrices::template TileAt<kBuilders>(num_blocks, warp, n);
    tiles.Multiply(s.keys, s.queries);
  };
  if (head == 0) {
    // Warps without tiles take the first nodes.
    s.gates.template Finish<32 * kBuilders>(
        num_heads, C::kThreads - 1 - static_cast<int>(threadIdx.x));
  }
  if (num_tiles > 0) multiply(0);
  if (head == 0) NamedBarrier<32 * kBuilders>(kGatesBarrier);
  for (int n = 0; n < num_tiles; ++n) {
    if (n > 0) multiply(n);
    tiles.Scale(s.gates, head);
    s.matrices.Store(tiles);
  }
}

// Forms R^T of the nodes' blocks from S k. `held` becomes the slots that held
// v, which are not released yet.
template <typename C, int kUsed>
__device__ void FormRightSides(const VerifyShared<C>& s, int head,
                               Stream<C>& stream, TileSum (&u)[kUsed],
                               unsigned char* (&held)[2]) {
  constexpr int kParts = ValueParts(C::kBlocks);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    held[part] =
        part == 0 ? stream.template Take<0>() : stream.template Take<1>();
#pragma unroll
    for (int b = 0; b < kPartBlocks; ++b) {
      const int block = part * kPartBlocks + b;
      if (block >= kUsed) break;
      FormRightSide(held[part], b, s.gates.heads[head], block, u[block]);
    }
  }
  __syncwarp();
}

// Stores O^T to global memory, through the slots that held v.
template <typename C, int kUsed>
__device__ void StoreOutputs(const Columns& columns, int head,
                             const TileSum (&o)[kUsed], Stream<C>& stream,
                             unsigned char* (&held)[2]) {
#pragma unroll
  for (int part = 0; part < ValueParts(C::kBlocks); ++part) {
    StorePart(o, part * kPartBlocks, held[part], columns.out + head * kValueDim,
              columns.stride, columns.num_nodes);
    stream.Release();
  }
}

// Processes a group of columns in one warp, head after head.
template <typename C, int kUsed>
__device__ void RunWhole(VerifyShared<C>& s, const Columns& columns,
                         Stream<C>& stream) {
  for (int head = 0; head < columns.num_heads; ++head) {
    if (head > 0) __syncthreads();  // The previous head's matrices were read.
    Build(s, kUsed, columns.num_heads, head);
    TileSum u[kUsed] = {};
    TileSum o[kUsed] = {};
#pragma unroll 1
    for (int part = 0; part < kStateParts; ++part) {
      const unsigned char* slot = stream.template Take<0>();
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        SplitOperand a;
        LoadState(slot, step, a);
        MultiplyState<kUsed>(a, part * 2 + step, s.keys, u);
        MultiplyState<kUsed>(a, part * 2 + step, s.queries, o);
      }
      stream.Release();
    }
    __syncthreads();
    unsigned char* held[2];
    FormRightSides<C>(s, head, stream, u, held);
    ScaleReadout(s.gates.heads[head], o);
#pragma unroll
    for (int j = 0; j < kUsed; ++j) {
      SplitOperand block;
      SolveBlock(s.matrices, j, u, block);
      TakeOff(s.matrices, j, block, u);
      ReadOut(s.matrices, j, block, o);
    }
    StoreOutputs<C>(columns, head, o, stream, held);
  }
}

// Multiplies the state by the rows of k or q, in one warp.
template <typename C, int kUsed>
__device__ void MultiplyAllState(Stream<C>& stream,
                                 const NodeRows<C::kNodes>& rows,
                                 TileSum (&sums)[kUsed]) {
#pragma unroll
  for (int part = 0; part < kStateParts; ++part) {
    const unsigned char* slot = stream.template Take<0>();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      SplitOperand a;
      LoadState(slot, step, a);
      MultiplyState<kUsed>(a, part * 2 + step, rows, sums);
    }
    stream.Release();
  }
}

// The warp of a group that solves hands each block of U to the one that reads
// out. Two slots are enough: the writer reuses a slot after the barrier of the
// block in between, at which the reader arrives only when it has read the slot.
template <typename C, int kUsed>
__device__ void RunSolver(VerifyShared<C>& s, int group, Stream<C>& stream) {
  TileSum u[kUsed] = {};
  MultiplyAllState<C>(stream, s.keys, u);
  __syncthreads();
  unsigned char* held[2];
  FormRightSides<C>(s, /*head=*/0, stream, u, held);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kUsed; ++j) {
    SplitOperand block;
    SolveBlock(s.matrices, j, u, block);
    const uint32_t* h = block.high;
    const uint32_t* l = block.low;
    s.exchange.u[group][j % 2][0][lane] = {h[0], h[1], h[2], h[3]};
    s.exchange.u[group][j % 2][1][lane] = {l[0], l[1], l[2], l[3]};
    NamedBarrier<64>(kExchangeBarrier + group);
    TakeOff(s.matrices, j, block, u);
  }
}

template <typename C, int kUsed>
__device__ void RunReader(VerifyShared<C>& s, int group, const Columns& columns,
                          Stream<C>& stream) {
  TileSum o[kUsed] = {};
  MultiplyAllState<C>(stream, s.queries, o);
  __syncthreads();
  ScaleReadout(s.gates.heads[0], o);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kUsed; ++j) {
    NamedBarrier<64>(kExchangeBarrier + group);
    const uint4 h = s.exchange.u[group][j % 2][0][lane];
    const uint4 l = s.exchange.u[group][j % 2][1][lane];
    const SplitOperand block = {{h.x, h.y, h.z, h.w}, {l.x, l.y, l.z, l.w}};
    ReadOut(s.matrices, j, block, o);
  }
  unsigned char* held[2] = {stream.template Take<0>(), nullptr};
  if constexpr (ValueParts(C::kBlocks) > 1) held[1] = stream.template Take<1>();
  StoreOutputs<C>(columns, /*head=*/0, o, stream, held);
}

template <typename C, int kUsed>
__device__ void RunColumns(VerifyShared<C>& s, const Columns& columns,
                           Stream<C>& stream) {
  const int warp = threadIdx.x / 32;
  if constexpr (!C::kIsSplit) {
    RunWhole<C, kUsed>(s, columns, stream);
  } else if (warp < C::kColumnGroups) {
    RunSolver<C, kUsed>(s, warp, stream);
  } else if (warp < C::kColumnWarps) {
    RunReader<C, kUsed>(s, warp - C::kColumnGroups, columns, stream);
  } else {
    Build(s, kUsed, /*num_heads=*/1, /*head=*/0);
    __syncthreads();
  }
}

// The number of blocks that a tree's nodes are padded to. Each such number has
// its own instance of the code.
template <int kBlocks>
__device__ int UsedBlocks(int num_nodes) {
  constexpr int kStep = kBlocks > 4 ? 2 : 1;
  return (num_nodes + kStep * kTileRows - 1) / (kStep * kTileRows) * kStep;
}
template <typename C, int kUsed = C::kBlocks>
__device__ void RunBlocks(int used, VerifyShared<C>& s, const Columns& columns,
                          Stream<C>& stream) {
  constexpr int kStep = C::kBlocks > 4 ? 2 : 1;
  if constexpr (kUsed > kStep) {
    if (used < kUsed) {
      RunBlocks<C, kUsed - kStep>(used, s, columns, stream);
      return;
    }
  }
  RunColumns<C, kUsed>(s, columns, stream);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BLOCK_CUH_
