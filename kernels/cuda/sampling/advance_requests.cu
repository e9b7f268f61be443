// Updates what a path changes for the next round, with one warp for each
// request.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kWarps = 4;

__global__ void __launch_bounds__(32 * kWarps)
    AdvanceKernel(const __grid_constant__ AdvanceRequestsParams p) {
  WaitForPrevious();
  StartNext();
  const int b = blockIdx.x * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (b >= p.max_requests) return;
  const int length = p.path.first[b + 1] - p.path.first[b];
  const int32_t last = p.next_token[b];
  bool stopped = false;
  for (int i = p.first_stop[b] + lane; i < p.first_stop[b + 1]; i += 32) {
    stopped = stopped || p.stop_token[i] == last;
  }
  stopped = __any_sync(0xffffffffu, stopped) != 0;
  if (lane > 0) return;
  const int committed = p.committed[b] + length;
  const int left = p.control[b].max_tokens - length;
  const bool ended = length == 0 || last == kNoToken || stopped || left <= 0;
  p.committed[b] = committed;
  p.control[b].max_tokens = left;
  p.node_limit[b] = ended ? 0 : max(p.max_context - committed, 0);
  p.depth_limit[b] = max(left, 0);
}

}  // namespace

absl::Status AdvanceRequests(const AdvanceRequestsParams& params,
                             const Launch& on) {
  const unsigned blocks = (params.max_requests + kWarps - 1) / kWarps;
  return LaunchDependent("AdvanceRequests", AdvanceKernel,
                         {.grid = blocks, .block = 32 * kWarps}, on, params);
}

}  // namespace bole::cuda
