// Moves accepted keys and values to where later rounds look for them.
#include "kernels/cuda/attention/compact_kv.cuh"

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;

// Grid: k's units and then v's, requests.
template <typename Unit>
__global__ void __launch_bounds__(kThreads) CompactKvKernel(KvMove move) {
  __shared__ KvPlaces<kThreads> places;
  WaitForPrevious();
  StartNext();
  const int64_t column =
      static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  MovePath<Unit, kThreads>(move, blockIdx.y, column, places);
}

template <typename Unit>
absl::Status LaunchCompactKv(const CompactKvParams& params, int row_bytes,
                             const Launch& on) {
  const KvMove move = {.p = params,
                       .units = row_bytes / static_cast<int>(sizeof(Unit))};
  const int64_t columns = 2 * move.pool_columns();
  const dim3 grid(static_cast<unsigned>((columns + kThreads - 1) / kThreads),
                  params.batch.max_requests);
  return LaunchDependent("CompactKv", &CompactKvKernel<Unit>,
                         {.grid = grid, .block = kThreads}, on, move);
}

}  // namespace

absl::Status CompactKv(const CompactKvParams& params, const Launch& on) {
  if (params.num_layers == 0) return absl::OkStatus();
  const int row_bytes =
      params.shape.head_dim * static_cast<int>(ElementBytes(on.type));
  if (row_bytes % sizeof(uint4) == 0) {
    return LaunchCompactKv<uint4>(params, row_bytes, on);
  }
  if (row_bytes % sizeof(uint32_t) == 0) {
    return LaunchCompactKv<uint32_t>(params, row_bytes, on);
  }
  return LaunchCompactKv<uint16_t>(params, row_bytes, on);
}

}  // namespace bole::cuda
