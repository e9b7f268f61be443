// Launch parameters of the kernels that verify with one block per streaming
// multiprocessor: tensor maps of their operands, and each block's share of the
// work.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LAUNCH_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LAUNCH_CUH_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/divisor.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_batch_loads.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

inline absl::Status MakeMap(const BoxedRows& boxed, CUtensorMap& map) {
  const absl::StatusOr<CUtensorMap> made = MapOf(boxed);
  if (made.ok()) map = *made;
  return made.status();
}

// Boxes have key_rows rows of k and q, and value_rows rows of v.
inline absl::Status MakeMaps(const GdnCoreParams& p, int key_rows,
                             int value_rows, VerifyMaps& maps) {
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
                    .box_rows = key_rows,
                    .box_columns = 64};
  made.Update(MakeMap(rows, maps.k));
  rows.data = p.q;
  made.Update(MakeMap(rows, maps.q));
  rows.data = v + first_row * shape.value_width();
  rows.columns = shape.value_width();
  rows.box_rows = value_rows;
  made.Update(MakeMap(rows, maps.v));
  return made;
}

// Returns 0 if the query fails.
inline int NumMultiprocessors() {
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

// Chooses the items such that the largest number of heads of a block is
// minimal.
inline BatchTask TaskOf(const GdnCoreParams& p, int num_blocks) {
  const int group = p.shape.value_heads / p.shape.key_heads;
  int best = group;
  int fewest = 0;
  for (int heads = group; heads >= 1; --heads) {
    if (group % heads != 0) continue;
    const int items = p.shape.value_heads / heads * p.batch.max_requests;
    const int longest = (items + num_blocks - 1) / num_blocks * heads;
    if (fewest == 0 || longest < fewest) {
      fewest = longest;
      best = heads;
    }
  }
  const int request_items = p.shape.value_heads / best;
  return {.num_items = request_items * p.batch.max_requests,
          .heads = best,
          .request_items = Divisor(request_items),
          .key_items = Divisor(group / best)};
}

template <typename Kernel>
absl::Status AllowSharedMemory(Kernel* kernel, size_t bytes) {
  return ToStatus(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(bytes)),
      "shared memory of GdnVerify");
}

// Launches a kernel whose blocks process heads one after another and have
// Shared as shared memory. Boxes have key_rows rows of k or q, and value_rows
// of v.
template <typename Shared, typename Kernel>
absl::Status LaunchByHeads(Kernel kernel, int key_rows, int value_rows,
                           const GdnCoreParams& p, const Launch& on) {
  constexpr int kBytes = sizeof(Shared);
  static_assert(kBytes <= 227 * 1024);
  VerifyMaps maps;
  absl::Status ready = MakeMaps(p, key_rows, value_rows, maps);
  ready.Update(AllowSharedMemory(kernel, kBytes));
  if (!ready.ok()) return ready;
  const int num_blocks = std::max(1, NumMultiprocessors());
  const BatchTask task = TaskOf(p, num_blocks);
  return LaunchDependent("GdnVerify", kernel,
                         {.grid = std::min(task.num_items, num_blocks),
                          .block = kBatchThreads,
                          .shared_bytes = kBytes},
                         on, p, maps, task);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LAUNCH_CUH_
