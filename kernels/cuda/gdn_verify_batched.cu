// Verification of trees with many heads: a block for each multiprocessor, whose
// warps have roles. Copies run ahead from head to head; one warpgroup builds
//
//   M = C (I + G)^-1
//
// over the nodes, while two multiply the state, 64 value columns each; then
//
//   R^T = (V - D_P K S)^T D_beta     state in two bfloat16 parts times raw k
//   O^T = (D_P Q S)^T + R^T M^T      R and M in two bfloat16 parts
//
// Left operands are in registers: the state as it lies in memory, and sums.
#include "kernels/cuda/gdn_verify_batched.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/verify_batch.cuh"
#include "kernels/cuda/verify_batch_columns.cuh"
#include "kernels/cuda/verify_batch_loads.cuh"
#include "kernels/cuda/verify_batch_matrix.cuh"

namespace bole::cuda {
namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The warps that load: one for the states and v, one for k and q, two for the
// gates.
template <typename C>
__device__ void RunLoaders(const GdnCoreParams& p, const VerifyMaps& maps,
                           BatchTask task, BatchShared<C>& s) {
  const int warp = static_cast<int>(threadIdx.x / 32) % 4;
  if (warp >= 2) {
    LoadGates(p, task, s);
  } else if (threadIdx.x % 32 == 0) {
    if (warp == 0) {
      LoadStatesAndValues(p, maps, task, s);
    } else {
      LoadRows(p, maps, task, s);
    }
  }
}

#endif

template <typename C>
__global__ void __launch_bounds__(kBatchThreads, 1)
    BatchedKernel(const __grid_constant__ GdnCoreParams p,
                  const __grid_constant__ VerifyMaps maps, BatchTask task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& s = *reinterpret_cast<BatchShared<C>*>(memory);
  if (threadIdx.x == 0) s.InitBarriers();
  if (threadIdx.x == 32) {
    PrefetchMap(maps.states);
    PrefetchMap(maps.k);
    PrefetchMap(maps.q);
    PrefetchMap(maps.v);
  }
  __syncthreads();
  StartNext();
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group < kColumnGroups) {
    GrowRegisters<kColumnRegisters>();
    GroupColumns<C>(p, s).Run();
  } else if (group == kBuilderGroup) {
    GrowRegisters<kBuilderRegisters>();
    MatrixBuilder<C>(s).Run();
  } else {
    ShrinkRegisters<kLoaderRegisters>();
    RunLoaders<C>(p, maps, task, s);
  }
#endif
}

absl::Status MakeMap(const BoxedRows& boxed, CUtensorMap& map) {
  const absl::StatusOr<CUtensorMap> made = MapOf(boxed);
  if (made.ok()) map = *made;
  return made.status();
}

absl::Status MakeMaps(const GdnCoreParams& p, int max_nodes, VerifyMaps& maps) {
  const GdnShape& shape = p.shape;
  const int64_t first_row =
      static_cast<int64_t>(p.layer) * p.factors.layer_rows;
  const auto* const k = reinterpret_cast<const BFloat16*>(p.factors.k);
  const auto* const v = reinterpret_cast<const BFloat16*>(p.factors.v);
  absl::Status made =
      MakeMap({.data = p.states.state,
               .rows = static_cast<int64_t>(p.states.num_slots) *
                       p.states.num_layers * shape.value_width(),
               .columns = 2 * shape.key_dim,
               .box_rows = kGroupColumns,
               .box_columns = 64},
              maps.states);
  BoxedRows rows = {.data = k + first_row * shape.key_width(),
                    .rows = p.batch.rows.max,
                    .columns = shape.key_width(),
                    .box_rows = max_nodes,
                    .box_columns = 64};
  made.Update(MakeMap(rows, maps.k));
  rows.data = p.q;
  made.Update(MakeMap(rows, maps.q));
  rows.data = v + first_row * shape.value_width();
  rows.columns = shape.value_width();
  made.Update(MakeMap(rows, maps.v));
  return made;
}

int NumMultiprocessors() {
  int device = 0;
  int count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) !=
          cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

// Items such that no block has more heads than it must.
BatchTask TaskOf(const GdnCoreParams& p, int num_blocks) {
  const int group = p.shape.value_heads / p.shape.key_heads;
  BatchTask best = {};
  int fewest = 0;
  for (int heads = group; heads >= 1; --heads) {
    if (group % heads != 0) continue;
    const int items = p.shape.value_heads / heads * p.batch.max_requests;
    const int longest = (items + num_blocks - 1) / num_blocks * heads;
    if (fewest == 0 || longest < fewest) {
      fewest = longest;
      best = {.num_items = items, .heads = heads};
    }
  }
  return best;
}

template <typename C>
absl::Status LaunchBatched(const GdnCoreParams& p, const Launch& on) {
  constexpr int kBytes = sizeof(BatchShared<C>);
  static_assert(kBytes <= 227 * 1024);
  VerifyMaps maps;
  absl::Status ready = MakeMaps(p, C::kNodes, maps);
  ready.Update(ToStatus(
      cudaFuncSetAttribute(BatchedKernel<C>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
      "shared memory of GdnVerify"));
  if (!ready.ok()) return ready;
  const int num_blocks = std::max(1, NumMultiprocessors());
  const BatchTask task = TaskOf(p, num_blocks);
  return LaunchDependent("GdnVerify", BatchedKernel<C>,
                         {.grid = std::min(task.num_items, num_blocks),
                          .block = kBatchThreads,
                          .shared_bytes = kBytes},
                         on, p, maps, task);
}

}  // namespace

bool CanVerifyBatched(const GdnCoreParams& p, int max_nodes) {
  if (max_nodes > kMaxBatchNodes ||
      p.shape.value_heads * p.batch.max_requests <= 64) {
    return false;
  }
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, BatchedKernel<BatchConfig<64, 7>>) !=
      cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.binaryVersion == 90;
}

absl::Status GdnVerifyBatched(const GdnCoreParams& p, int max_nodes,
                              const Launch& on) {
  if (max_nodes <= 32) return LaunchBatched<BatchConfig<32, 10>>(p, on);
  return LaunchBatched<BatchConfig<64, 7>>(p, on);
}

}  // namespace bole::cuda
