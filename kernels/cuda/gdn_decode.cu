// One row of every request on its state, and chains of rows as the same
// recurrence.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_plain.h"
#include "kernels/cuda/gdn_recurrence.cuh"
#include "kernels/cuda/gdn_rows.cuh"
#include "kernels/cuda/gdn_state_rows.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kTileRows = 2;  // Of a lane.
constexpr int kTileWarps = 4;
constexpr int kValuesPerBlock = kTileWarps * StateRows<kTileRows>::kPerWarp;

// Keys of 128. Grid: value tiles, heads, requests.
template <typename T>
__global__ void __launch_bounds__(32 * kTileWarps) TileKernel(GdnCoreParams p) {
  WaitForPrevious();
  StartNext();
  const int head = blockIdx.y;
  const int request = blockIdx.z;
  const int first = p.batch.first_row[request];
  const int end = p.batch.first_row[request + 1];
  if (first == end) return;
  StateRows<kTileRows> state(
      static_cast<int>(blockIdx.x) * kValuesPerBlock +
          static_cast<int>(threadIdx.x / 32) * StateRows<kTileRows>::kPerWarp,
      p.shape.value_dim);
  float* in_memory =
      HeadState(p.shape, p.states, p.batch.slot[request], p.layer, head);
  if (p.batch.committed[request] == 0) {
    state.Clear();
  } else {
    state.Load(in_memory);
  }
  const FactorRows<T> factors(p.shape, p.factors, p.layer);
  const int key_head = KeyHead(p.shape, head);
  for (int row = first; row < end; ++row) {
    const int64_t key_row =
        static_cast<int64_t>(row) * p.shape.key_heads + key_head;
    KeyElements k;
    KeyElements q;
    LoadScaledElements(factors.k(row, key_head), factors.k_scale(row, key_head),
                       k);
    LoadScaledElements(As<T>(p.q) + key_row * kStateKeyDim, p.q_scale[key_row],
                       q);
    const float decay = expf(factors.log_decay(row, head));
    const float beta = factors.beta(row, head);
    const T* v = factors.v(row, head);
    T* out = As<T>(p.out) +
             (static_cast<int64_t>(row) * p.shape.value_heads + head) *
                 p.shape.value_dim;
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      const int value = state.row(r);
      const bool is_value = value < p.shape.value_dim;
      AdvanceRow(state.value[r], k, decay, beta,
                 is_value ? ToFloat(v[value]) : 0.0f);
      const float o = DotOfRow(state.value[r], q);
      if (is_value && threadIdx.x % kRowLanes == 0)
        out[value] = FromFloat<T>(o);
    }
  }
  state.Store(in_memory);
}

// Keys of any dimension to 256. Grid: value tiles, heads, requests.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps) CoreKernel(GdnCoreParams p) {
  WaitForPrevious();
  StartNext();
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
  const int values = tile ? kValuesPerBlock : kRowsPerBlock;
  const LaunchShape shape = {
      .grid = dim3((params.shape.value_dim + values - 1) / values,
                   params.shape.value_heads, params.batch.max_requests),
      .block = dim3(32 * (tile ? kTileWarps : kRowWarps))};
  return LaunchDependent(what, kernel, shape, on, params);
}

absl::Status GdnDecode(const GdnCoreParams& params, const Launch& on) {
  return RunRows("GdnDecode", params, on);
}

}  // namespace bole::cuda
