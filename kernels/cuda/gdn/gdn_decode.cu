// Applies one row of every request to its state; chains of rows use the same
// recurrence.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_plain.h"
#include "kernels/cuda/gdn/gdn_recurrence.cuh"
#include "kernels/cuda/gdn/gdn_rows.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// A tile of a head's values and the rows of a request, of which there may be
// none. Grid: value tiles, heads, requests.
template <typename T>
__device__ HeadRun<T> RunOf(const GdnCoreParams& p, int values) {
  const int head = blockIdx.y;
  const int request = blockIdx.z;
  const int first = p.batch.first_row[request];
  return {.shape = p.shape,
          .factors = FactorRows<T>(p.shape, p.factors, p.layer),
          .head = head,
          .first_value = static_cast<int>(blockIdx.x) * values,
          .state = HeadState(p.shape, p.states, p.batch.slot[request], p.layer,
                             head),
          .from_zero = p.batch.committed[request] == 0,
          .rows = nullptr,
          .first = first,
          .count = p.batch.first_row[request + 1] - first,
          .core = &p};
}

// For keys of 128 dimensions.
template <typename T>
__global__ void __launch_bounds__(kTileThreads) TileKernel(GdnCoreParams p) {
  WaitForPrevious();
  StartNext();
  const HeadRun<T> run = RunOf<T>(p, kTileValues);
  if (run.count > 0) RunTile(run);
}

// For keys of up to 256 dimensions.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps) CoreKernel(GdnCoreParams p) {
  WaitForPrevious();
  StartNext();
  const HeadRun<T> run = RunOf<T>(p, kRowsPerBlock);
  if (run.count > 0) Run<T, kPerLane>(run);
}

}  // namespace

absl::Status RunRows(const char* what, const GdnCoreParams& params,
                     const Launch& on) {
  void (*kernel)(GdnCoreParams) = nullptr;
  const bool tile = params.shape.key_dim == kStateKeyDim;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    if (tile) {
      kernel = &TileKernel<T>;
      return;
    }
    WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      kernel = &CoreKernel<T, decltype(per_lane)::value>;
    });
  });
  if (kernel == nullptr) return KeysTooWide(what, params.shape);
  const int values = tile ? kTileValues : kRowsPerBlock;
  const LaunchShape shape = {
      .grid = dim3((params.shape.value_dim + values - 1) / values,
                   params.shape.value_heads, params.batch.max_requests),
      .block = dim3(tile ? kTileThreads : 32 * kRowWarps)};
  return LaunchDependent(what, kernel, shape, on, params);
}

absl::Status GdnDecode(const GdnCoreParams& params, const Launch& on) {
  return RunRows("GdnDecode", params, on);
}

}  // namespace bole::cuda
