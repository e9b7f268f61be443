// One row of every request on its state, and chains of rows as the same
// recurrence.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_plain.h"
#include "kernels/cuda/gdn_recurrence.cuh"
#include "kernels/cuda/gdn_rows.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// Grid: value tiles, heads, requests.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps) CoreKernel(GdnCoreParams p) {
  const int head = blockIdx.y;
  const int request = blockIdx.z;
  const int first = p.batch.first_row[request];
  const int count = p.batch.first_row[request + 1] - first;
  if (count == 0) return;
  Run<T, kPerLane>({.shape = p.shape,
                    .factors = FactorRows<T>(p.shape, p.factors, p.layer),
                    .head = head,
                    .state = HeadState(p.shape, p.states, p.batch.slot[request],
                                       p.layer, head),
                    .from_zero = p.batch.committed[request] == 0,
                    .rows = nullptr,
                    .first = first,
                    .count = count,
                    .core = &p});
}

}  // namespace

absl::Status RunRows(const char* what, const GdnCoreParams& params,
                     const Launch& on) {
  const dim3 grid(NumValueTiles(params.shape), params.shape.value_heads,
                  params.batch.max_requests);
  bool fits = false;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    fits = WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      CoreKernel<T, decltype(per_lane)::value>
          <<<grid, 32 * kRowWarps, 0, on.stream>>>(params);
    });
  });
  return fits ? LaunchStatus(what) : KeysTooWide(what, params.shape);
}

absl::Status GdnDecode(const GdnCoreParams& params, const Launch& on) {
  return RunRows("GdnDecode", params, on);
}

}  // namespace bole::cuda
