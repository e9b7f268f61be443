// Rows one after the other on the state: decode, prefill, and the exact fold of
// an accepted path. All three are one recurrence (gdn_recurrence.cuh), so that
// a commit leaves the bits that decoding would have left.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_recurrence.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// A warp holds kRowsPerWarp rows of a head's state, all of the key dimension.
constexpr int kWarps = 8;
constexpr int kRowsPerWarp = 4;
constexpr int kRowsPerBlock = kWarps * kRowsPerWarp;

// What is run on the state of one request, layer and head.
template <typename T>
struct HeadRun {
  const GdnShape& shape;
  FactorRows<T> factors;
  int head;
  float* state;  // [dv, dk]
  bool from_zero;
  // Rows: row[i] if there is a list, else first + i.
  const int32_t* rows;
  int first;
  int count;
  // Where outputs go, if they are wanted.
  const GdnCoreParams* core;

  __device__ int row(int i) const { return rows ? rows[i] : first + i; }
};

template <typename T, int kPerLane>
__device__ void Run(const HeadRun<T>& run) {
  const GdnShape& s = run.shape;
  const int first_value = static_cast<int>(blockIdx.x) * kRowsPerBlock +
                          static_cast<int>(threadIdx.x / 32) * kRowsPerWarp;
  WarpVector<kPerLane> state[kRowsPerWarp];
#pragma unroll
  for (int r = 0; r < kRowsPerWarp; ++r) {
    state[r].Clear();
    const int value = first_value + r;
    if (run.from_zero || value >= s.value_dim) continue;
    state[r].Load(run.state + static_cast<int64_t>(value) * s.key_dim,
                  s.key_dim);
  }
  const int key_head = KeyHead(s, run.head);
  for (int i = 0; i < run.count; ++i) {
    const int row = run.row(i);
    WarpVector<kPerLane> k;
    k.LoadScaled(run.factors.k(row, key_head),
                 run.factors.k_scale(row, key_head), s.key_dim);
    WarpVector<kPerLane> q;
    T* out = nullptr;
    if (run.core != nullptr) {
      const int64_t key_row =
          static_cast<int64_t>(row) * s.key_heads + key_head;
      q.LoadScaled(As<T>(run.core->q) + key_row * s.key_dim,
                   run.core->q_scale[key_row], s.key_dim);
      out =
          As<T>(run.core->out) +
          (static_cast<int64_t>(row) * s.value_heads + run.head) * s.value_dim;
    }
    const T* v = run.factors.v(row, run.head);
    const float decay = expf(run.factors.log_decay(row, run.head));
    const float beta = run.factors.beta(row, run.head);
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const int value = first_value + r;
      if (value >= s.value_dim) continue;
      Advance(state[r], k, decay, beta, ToFloat(v[value]));
      if (out == nullptr) continue;
      const float o = Dot(state[r], q);
      if (threadIdx.x % 32 == 0) out[value] = FromFloat<T>(o);
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsPerWarp; ++r) {
    const int value = first_value + r;
    if (value >= s.value_dim) continue;
    state[r].Store(run.state + static_cast<int64_t>(value) * s.key_dim,
                   s.key_dim);
  }
}

// Grid: value tiles, heads, requests.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kWarps) CoreKernel(GdnCoreParams p) {
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

// Grid: value tiles, layers and heads, requests.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kWarps) CommitKernel(GdnCommitParams p) {
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

// The new window is the last conv_taps rows of the old one and the path's. A
// thread owns a channel, and reads what it moves before it writes.
template <typename T>
__global__ void WindowKernel(GdnCommitParams p) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int layer = p.first_layer + static_cast<int>(blockIdx.y);
  const int request = blockIdx.z;
  const int first = p.path.first[request];
  const int count = p.path.first[request + 1] - first;
  if (count == 0 || channel >= p.shape.conv_width()) return;
  const FactorRows<T> factors(p.shape, p.factors, layer);
  T* window =
      SlotWindow<T>(p.shape, p.states, p.batch.slot[request], layer) + channel;
  const int taps = p.shape.conv_taps;
  const int64_t width = p.shape.conv_width();
  const bool from_zero = p.batch.committed[request] == 0;
  // Ascending, and count > 0: no row is overwritten before it has moved.
  for (int i = 0; i < taps; ++i) {
    const int from = i + count;
    T value = FromFloat<T>(0);
    if (from >= taps) {
      value = factors.raw(p.path.row[first + from - taps])[channel];
    } else if (!from_zero) {
      value = window[from * width];
    }
    window[i * width] = value;
  }
}

int NumValueTiles(const GdnShape& shape) {
  return (shape.value_dim + kRowsPerBlock - 1) / kRowsPerBlock;
}

absl::Status TooWide(const char* what, const GdnShape& shape) {
  return absl::UnimplementedError(absl::StrCat(
      what, ": keys of ", shape.key_dim, "; the kernels hold up to 256"));
}

absl::Status RunCore(const char* what, const GdnCoreParams& params,
                     const Launch& on) {
  const dim3 grid(NumValueTiles(params.shape), params.shape.value_heads,
                  params.batch.max_requests);
  bool fits = false;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    fits = WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      CoreKernel<T, decltype(per_lane)::value>
          <<<grid, 32 * kWarps, 0, on.stream>>>(params);
    });
  });
  return fits ? LaunchStatus(what) : TooWide(what, params.shape);
}

}  // namespace

absl::Status GdnDecode(const GdnCoreParams& params, const Launch& on) {
  return RunCore("GdnDecode", params, on);
}

absl::Status GdnPrefill(const GdnCoreParams& params, const Launch& on) {
  return RunCore("GdnPrefill", params, on);
}

absl::Status GdnCommitStates(const GdnCommitParams& params, const Launch& on) {
  const dim3 grid(NumValueTiles(params.shape),
                  params.num_layers * params.shape.value_heads,
                  params.batch.max_requests);
  bool fits = false;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    fits = WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      CommitKernel<T, decltype(per_lane)::value>
          <<<grid, 32 * kWarps, 0, on.stream>>>(params);
    });
  });
  return fits ? LaunchStatus("GdnCommitStates")
              : TooWide("GdnCommitStates", params.shape);
}

absl::Status GdnCommitWindows(const GdnCommitParams& params, const Launch& on) {
  constexpr int kThreads = 256;
  const dim3 grid((params.shape.conv_width() + kThreads - 1) / kThreads,
                  params.num_layers, params.batch.max_requests);
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    WindowKernel<T><<<grid, kThreads, 0, on.stream>>>(params);
  });
  return LaunchStatus("GdnCommitWindows");
}

}  // namespace bole::cuda
