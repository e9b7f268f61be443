// Verification in two stages (Secs. IV-B and IV-C): a producer builds G and C
// once for each head, then a block for each tile of value columns forms R from
// the state and applies the finite Neumann series (Eq. 6). All products but the
// Gram matrices' are in tf32 with float32 sums, the number of rounds is the
// tree's depth, and U is not stored, because a commit replays the path.
#include "kernels/cuda/verify/gdn_verify_two_stage.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/tree_factors.cuh"
#include "kernels/cuda/verify/two_stage_memory.cuh"
#include "kernels/cuda/verify/two_stage_series.cuh"

namespace bole::cuda {
namespace {

// Grid: tiles of 16 rows, key heads, requests. Shared memory: FactorMemory.
__global__ void __launch_bounds__(kFactorThreads)
    TreeFactorsKernel(GdnCoreParams p, TreeFactors out) {
  extern __shared__ __align__(16) unsigned char shared[];
  WaitForPrevious();
  StartNext();
  const FactorRowsOf rows(p);
  if (rows.first_row >= rows.count) return;
  const int nodes = out.max_nodes;
  const FactorMemory memory(shared, nodes, rows.group);
  LoadFactorRows(rows, memory, nodes);
  __syncthreads();
  ClimbPaths(rows, memory, nodes, out);
  WaitForCopies<0>();
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x / 32) * 8;
       column < rows.first_row + kFactorRows;
       column += kFactorThreads / 32 * 8) {
    const GramTile gram = MultiplyKeys(memory, rows.first_row, column);
    WriteFactors(rows, memory, nodes, column, gram, out);
  }
}

// Computes a block's tile, for a tree of at most kNodes nodes.
template <int kNodes, int kTiles>
__device__ void VerifyTile(const TileWork& on, const TreeFactors& factors,
                           unsigned char* shared) {
  const GdnCoreParams& p = on.p;
  const TileMemory<kNodes> memory(shared, on.columns);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int first = warp * 16 * kTiles;
  const int lane = threadIdx.x % 32;
  StateStream<kTiles> state = {
      .row = nullptr,
      .ring = reinterpret_cast<StateRing<kTiles>*>(memory.state)[warp]};
  if (p.batch.committed[on.request] > 0) {
    state.row = HeadState(p.shape, p.states, p.batch.slot[on.request], p.layer,
                          on.head) +
                (on.first_column + first + lane / 4) * kTreeKeyDim +
                lane % 4 * 4;
  }
  for (int i = 0; i < kAhead; ++i) state.Copy(i);
  CopyOperands(on, memory);
  // Stage 1 has waited for all kernels before it, so this waits only for what
  // stage 1 writes.
  WaitForPrevious();
  StartNext();
  CopyMatrix<kNodes>(factors.g(on.request, on.head), on.count,
                     factors.max_nodes, memory.g);
  LoadGates(on, factors, memory);
  const int depth = on.Depth();
  WaitForCopies<1>();  // All but G.
  __syncthreads();

  Sums<kNodes, kTiles> u = {};
  Sums<kNodes, kTiles> o = {};
  MultiplyState<kNodes, kTiles>(state, memory, u, o);
  WaitForCopies<0>();
  __syncthreads();  // G has arrived, and q and k have been read.
  CopyMatrix<kNodes>(factors.c(on.request, on.head), on.count,
                     factors.max_nodes, memory.c);

  uint32_t z[kNodes / 8][kTiles][4];
  StartSeries<kNodes, kTiles>(memory, on.columns, first, z, u, o);
  for (int round = 0; round < depth; ++round) {
    AdvanceSeries<kNodes, kTiles>(memory.g, z, u);
  }
  WaitForCopies<0>();
  __syncthreads();
  ReadOut<kNodes, kTiles>(memory.c, u, o);
  StoreOut<kNodes, kTiles>(on, memory, first, o);
}

template <int kTiles>
constexpr int kMaxThreads = kTiles == 1 ? 256 : 128;

// kNodes: what the batch has room for. Smaller trees run code for their size.
template <int kNodes, int kTiles>
__global__ void __launch_bounds__(kMaxThreads<kTiles>)
    TwoStageKernel(GdnCoreParams p, TreeFactors factors) {
  extern __shared__ __align__(16) unsigned char shared[];
  const TileWork on(p, 16 * kTiles);
  if (on.count == 0) {
    WaitForPrevious();
    return;
  }
  if (on.count <= 16) return VerifyTile<16, kTiles>(on, factors, shared);
  if constexpr (kNodes >= 64) {
    if (on.count <= 32) return VerifyTile<32, kTiles>(on, factors, shared);
  }
  if constexpr (kNodes >= 128) {
    if (on.count <= 64) return VerifyTile<64, kTiles>(on, factors, shared);
  }
  VerifyTile<kNodes, kTiles>(on, factors, shared);
}

// A compiled kernel, and the parameters that it is launched with.
struct TileChoice {
  int columns_per_warp;
  int warps;
  size_t (*bytes)(int columns);
  void (*kernel)(GdnCoreParams, TreeFactors);
};

template <int kNodes, int kTiles>
TileChoice Choice(int warps) {
  return {.columns_per_warp = 16 * kTiles,
          .warps = warps,
          .bytes = &TileMemory<kNodes>::Bytes,
          .kernel = &TwoStageKernel<kNodes, kTiles>};
}

// Chooses by the number of requests times value heads, as measured on an H200.
TileChoice ChooseTile(int max_nodes, int num_heads) {
  const bool is_small = num_heads <= 128;
  if (max_nodes == 32) return Choice<32, 1>(is_small ? 2 : 4);
  if (max_nodes == 64) return is_small ? Choice<64, 1>(4) : Choice<64, 2>(4);
  return Choice<128, 1>(num_heads <= 64 ? 4 : 8);
}

int MaxNodes(const GdnCoreParams& p) {
  const int nodes = p.batch.mask_words > 0
                        ? std::min(32 * p.batch.mask_words, p.batch.rows.max)
                        : p.batch.rows.max;
  if (nodes <= 32) return 32;
  return nodes <= 64 ? 64 : 128;
}

absl::Status AllowMemory(const void* kernel, size_t bytes) {
  return ToStatus(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(bytes)),
      absl::StrCat("GdnVerify: ", bytes, " bytes of shared memory"));
}

}  // namespace

bool CanVerifyTwoStage(const GdnCoreParams& params, const Launch& on) {
  constexpr int kMaxNodes = 128;
  const int nodes = params.batch.mask_words > 0 ? 32 * params.batch.mask_words
                                                : params.batch.rows.max;
  return params.solver == TreeSolver::kNeumann &&
         on.type == ElementType::kBFloat16 &&
         params.shape.key_dim == kTreeKeyDim &&
         params.shape.value_dim == kTreeKeyDim && nodes <= kMaxNodes;
}

size_t TwoStageScratchBytes(const GdnCoreParams& params) {
  return TreeFactors::Bytes(params.batch.max_requests, params.shape.value_heads,
                            MaxNodes(params));
}

absl::Status GdnVerifyTwoStage(const GdnCoreParams& params, void* scratch,
                               const Launch& on) {
  const GdnShape& s = params.shape;
  const int requests = params.batch.max_requests;
  const int nodes = MaxNodes(params);
  const TreeFactors factors(scratch, requests, s.value_heads, nodes);
  const size_t factor_bytes =
      FactorMemory::Bytes(nodes, s.value_heads / s.key_heads);
  const LaunchShape first = {
      .grid = dim3(nodes / kFactorRows, s.key_heads, requests),
      .block = dim3(kFactorThreads),
      .shared_bytes = factor_bytes};
  const TileChoice tile = ChooseTile(nodes, requests * s.value_heads);
  const int columns = tile.columns_per_warp * tile.warps;
  const LaunchShape second = {
      .grid = dim3(kTreeKeyDim / columns, s.value_heads, requests),
      .block = dim3(32 * tile.warps),
      .shared_bytes = tile.bytes(columns)};
  const absl::Status first_allowed = AllowMemory(
      reinterpret_cast<const void*>(&TreeFactorsKernel), factor_bytes);
  if (!first_allowed.ok()) return first_allowed;
  const absl::Status second_allowed = AllowMemory(
      reinterpret_cast<const void*>(tile.kernel), second.shared_bytes);
  if (!second_allowed.ok()) return second_allowed;
  const absl::Status launched = LaunchDependent(
      "GdnVerify, G and C", &TreeFactorsKernel, first, on, params, factors);
  if (!launched.ok()) return launched;
  return LaunchDependent("GdnVerify, value tiles", tile.kernel, second, on,
                         params, factors);
}

}  // namespace bole::cuda
