// Verification in a launch of its own, for few requests with trees of 33 to 64
// nodes. There is a block for each tile of the columns of a head
// (verify_alone.cuh), and one block on a multiprocessor.
#include "kernels/cuda/verify/gdn_verify_alone.h"

#include "absl/status/status.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_alone.cuh"
#include "kernels/cuda/verify/verify_alone_columns.cuh"
#include "kernels/cuda/verify/verify_alone_matrix.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"

namespace bole::cuda {
namespace {

using C = AloneConfig;

// Grid: tiles of the heads of a key head, key heads, requests. Topology and
// states were written before this forward pass, whose first kernel waited for
// all earlier ones, so they are read while the previous kernel may still run.
__global__ void __launch_bounds__(C::kThreads, 1)
    AloneKernel(const __grid_constant__ GdnCoreParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& s = *reinterpret_cast<AloneShared*>(memory);
  StartNext();
  const int block = static_cast<int>(blockIdx.x);
  const int heads_per_key = static_cast<int>(gridDim.x) / C::kTiles;
  const int key_head = static_cast<int>(blockIdx.y);
  LayerTile tile = {.request = static_cast<int>(blockIdx.z),
                    .key_head = key_head,
                    .head = key_head * heads_per_key + block / C::kTiles,
                    .column = block % C::kTiles * C::kTileColumns,
                    .rank = 0,
                    .blocks = 1,
                    .owns_keys = false};
  tile.ReadRequest(p.batch);
  s.InitBarriers();
  if (tile.count <= 0) {
    WaitForPrevious();  // A kernel has waited when it ends, empty or not.
    return;
  }
  if (tile.count > C::kNodes) __trap();
  // The last threads have a node each.
  Gates<C> gates(p.batch, tile,
                 static_cast<int>(threadIdx.x) - (C::kThreads - C::kNodes));
  const int warpgroup = static_cast<int>(threadIdx.x) / (32 * kGroupWarps);
  if (warpgroup == 0) {
    const float* state = nullptr;
    if (!tile.from_zero) {
      state = HeadState(p.shape, p.states, tile.slot, p.layer, tile.head) +
              tile.column * kKeyDim;
    }
    s.state.LoadAsync<kGroupWarps>(state);
    CommitCopies();
  }
  __syncthreads();  // The barriers have been initialised.
  WaitForPrevious();
  const int padded = (tile.count + kTileRows - 1) / kTileRows * kTileRows;
  if (warpgroup == 0) {
    AloneColumns(p, tile, padded, s).Run();
  } else if (gates.node < 0) {
    LoadRows(p, tile, padded, s);
    AloneRow(s, /*solves=*/warpgroup == 1).Build(padded / kTileRows);
  } else {
    FinishGates(p, tile, gates, s);
  }
#endif
}

}  // namespace

absl::Status GdnVerifyAlone(const GdnCoreParams& p, const Launch& on) {
  constexpr int kBytes = sizeof(AloneShared);
  static_assert(kBytes <= 227 * 1024);
  const absl::Status raised = ToStatus(
      cudaFuncSetAttribute(AloneKernel,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
      "shared memory of GdnVerify");
  if (!raised.ok()) return raised;
  const unsigned tiles = p.shape.value_heads / p.shape.key_heads * C::kTiles;
  return LaunchDependent(
      "GdnVerify", AloneKernel,
      {.grid = dim3(tiles, p.shape.key_heads, p.batch.max_requests),
       .block = dim3(C::kThreads),
       .shared_bytes = kBytes},
      on, p);
}

}  // namespace bole::cuda
