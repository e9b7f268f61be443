// Verification of trees in one launch: the closed form, solved by substitution
// over 16-row blocks, on tensor cores.
//
// Some warps build the matrices over the nodes (TreeMatrices). Others have 16
// value columns each, rows of the stored state [dv, dk], and compute
// transposes, [columns, nodes]:
//
//   R^T = (V - D_P K S)^T D_beta     state in two bfloat16 parts times raw k
//   U^T = R^T (I + G)^-T             block by block, in registers
//   O^T = (D_P Q S)^T + U^T C^T
//
// The state is a left operand in the layout that it has in memory, and sums
// become left operands without leaving their registers.
#include "kernels/cuda/verify/gdn_verify_fused.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_block.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"

namespace bole::cuda {
namespace {

constexpr int kMaxNodes = 128;

// Prefetches 16 columns of a state into L2, while previous kernels may still
// run. The slot may be that of an earlier round. Then the prefetch is wasted,
// but harmless even if the state is about to be written, because nothing is
// read. The slot itself must not be read through L1, where a later read would
// find the old value.
__device__ void PrefetchState(const GdnCoreParams& p, int request, int head,
                              int column) {
  const int slot = __ldcg(&p.batch.slot[request]);
  if (slot < 0 || slot >= p.states.num_slots) return;
  const float* state =
      HeadState(p.shape, p.states, slot, p.layer, head) + column * kKeyDim;
  constexpr int kLine = 128 / sizeof(float);
#pragma unroll
  for (int n = 0; n < kColumns * kKeyDim / kLine / 32; ++n) {
    const float* line = state + (n * 32 + threadIdx.x % 32) * kLine;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
  }
}

// Grid: value tiles within groups of heads, requests.
template <typename C>
__global__ void __launch_bounds__(C::kThreads, C::kPerProcessor)
    FusedKernel(const __grid_constant__ GdnCoreParams p, int num_heads) {
  extern __shared__ __align__(128) unsigned char memory[];
  VerifyShared<C>& s = *reinterpret_cast<VerifyShared<C>*>(memory);
  const int request = blockIdx.y;
  const int warp = threadIdx.x / 32;
  const int first_head = static_cast<int>(blockIdx.x) / C::kTiles * num_heads;
  const int column =
      (static_cast<int>(blockIdx.x) % C::kTiles * C::kColumnGroups +
       warp % C::kColumnGroups) *
      kColumns;
  if (warp < C::kColumnGroups) PrefetchState(p, request, first_head, column);
  WaitForPrevious();
  StartNext();
  const int slot = p.batch.slot[request];
  const int committed = p.batch.committed[request];
  const HeadTree<BFloat16> tree(p, request, first_head, num_heads);
  if (tree.count <= 0) return;
  if (tree.count > C::kNodes) __trap();
  const int used = UsedBlocks<C::kBlocks>(tree.count);

  const int64_t stride = p.shape.key_width();
  s.keys.template LoadAsync<C::kThreads>(
      tree.factors.k(tree.first, tree.key_head), stride, tree.count,
      used * kTileRows);
  s.queries.template LoadAsync<C::kThreads>(
      As<BFloat16>(p.q) + tree.first * stride + tree.key_head * kKeyDim, stride,
      tree.count, used * kTileRows);
  CommitCopies();
  const bool has_columns = warp < C::kColumnWarps;
  const Columns columns = ColumnsAt(p, slot, committed > 0, tree, column);
  // A warp that only reads out needs no v.
  const bool needs_v = warp < C::kColumnGroups;
  Stream<C> stream(
      reinterpret_cast<unsigned char*>(s.ring[has_columns ? warp : 0]),
      columns.state, needs_v ? columns.v : nullptr, columns.stride,
      columns.num_nodes, has_columns ? columns.num_heads : 0);
  s.gates.Load(p, tree, static_cast<int>(threadIdx.x));
  WaitForCopies<C::kSlots>();
  __syncthreads();
  RunBlocks<C>(used, s, columns, stream);
}

template <typename C>
absl::Status LaunchFused(const GdnCoreParams& p, int num_heads,
                         const Launch& on) {
  const auto kernel = &FusedKernel<C>;
  constexpr int kBytes = sizeof(VerifyShared<C>);
  const absl::Status raised =
      ToStatus(cudaFuncSetAttribute(
                   kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "shared memory of GdnVerify");
  if (!raised.ok()) return raised;
  return LaunchDependent(
      "GdnVerify", kernel,
      {.grid = dim3(p.shape.value_heads / num_heads * C::kTiles,
                    p.batch.max_requests),
       .block = dim3(C::kThreads),
       .shared_bytes = kBytes},
      on, p, num_heads);
}

// The number of heads per block: as many as leave `wanted` blocks.
int HeadsOfBlock(const GdnCoreParams& p, int max_heads, int wanted) {
  const int group = p.shape.value_heads / p.shape.key_heads;
  for (int heads = std::min(group, max_heads); heads > 1; --heads) {
    const int blocks = p.shape.value_heads / heads * p.batch.max_requests;
    if (group % heads == 0 && blocks >= wanted) return heads;
  }
  return 1;
}

// Calls f with the configuration for the problem, a VerifyConfig.
template <typename F>
auto WithConfig(const GdnCoreParams& p, const F& f) {
  const int nodes = FusedNodes(p.batch);
  if (nodes <= 32) return f(VerifyConfig<2, 8, false, 4, 2>());
  if (nodes <= 64) return f(VerifyConfig<4, 8, false, 3, 2>());
  // With up to 32 heads, four blocks per head still have a streaming
  // multiprocessor each; with up to 64 heads, two do.
  const int heads = p.shape.value_heads * p.batch.max_requests;
  if (heads <= 32) return f(VerifyConfig<8, 2, true, 4, 1>());
  if (heads <= 64) return f(VerifyConfig<8, 4, true, 4, 1>());
  return f(VerifyConfig<8, 8, false, 4, 1>());
}

}  // namespace

int FusedNodes(const RowBatch& batch) {
  return batch.mask_words > 0 ? std::min(32 * batch.mask_words, batch.rows.max)
                              : std::min(batch.rows.max, kMaxNodes);
}

bool CanVerifyFused(const GdnCoreParams& p, const Launch& on) {
  if (on.type != ElementType::kBFloat16 || p.solver != TreeSolver::kBlocks ||
      p.shape.key_dim != kKeyDim || p.shape.value_dim != kValueDim ||
      FusedNodes(p.batch) > kMaxNodes) {
    return false;
  }
  return WithConfig(p, [&on](auto config) {
    return static_cast<int>(sizeof(VerifyShared<decltype(config)>)) <=
           on.shared_bytes;
  });
}

absl::Status GdnVerifyFused(const GdnCoreParams& p, const Launch& on) {
  return WithConfig(p, [&](auto config) {
    using C = decltype(config);
    return LaunchFused<C>(p, HeadsOfBlock(p, C::kHeads, /*wanted=*/200), on);
  });
}

}  // namespace bole::cuda
