// The exact fold of accepted paths into the states of all layers.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_recurrence.cuh"
#include "kernels/cuda/gdn_rows.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// Grid: value tiles, layers and heads, requests.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps)
    CommitKernel(GdnCommitParams p) {
  const int layer =
      p.first_layer + static_cast<int>(blockIdx.y) / p.shape.value_heads;
  const int head = static_cast<int>(blockIdx.y) % p.shape.value_heads;
  const int request = blockIdx.z;
  const int first = p.path.first[request];
  const int count = p.path.first[request + 1] - first;
  if (count == 0) return;
  Run<T, kPerLane>({.shape = p.shape,
                    .factors = FactorRows<T>(p.shape, p.factors, layer),
                    .head = head,
                    .state = HeadState(p.shape, p.states, p.batch.slot[request],
                                       layer, head),
                    .from_zero = p.batch.committed[request] == 0,
                    .rows = p.path.row + first,
                    .first = 0,
                    .count = count,
                    .core = nullptr});
}

}  // namespace

absl::Status GdnCommitStates(const GdnCommitParams& params, const Launch& on) {
  const dim3 grid(NumValueTiles(params.shape),
                  params.num_layers * params.shape.value_heads,
                  params.batch.max_requests);
  bool fits = false;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    fits = WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      CommitKernel<T, decltype(per_lane)::value>
          <<<grid, 32 * kRowWarps, 0, on.stream>>>(params);
    });
  });
  return fits ? LaunchStatus("GdnCommitStates")
              : KeysTooWide("GdnCommitStates", params.shape);
}

}  // namespace bole::cuda
