// Plain versions of the front of a linear layer (tree convolution, SiLU,
// scales, gates) and of the gated norm at its end, for any element type and any
// shape.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_gates.cuh"
#include "kernels/cuda/gdn/gdn_plain.h"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxTaps = 8;

template <typename T>
__device__ const T* ProjectedRow(const GdnConvParams& p, int row) {
  return As<T>(p.projected) +
         static_cast<int64_t>(row) * p.shape.projected_width();
}

// Finds the raw rows under the taps, oldest first. They are the row, its
// ancestors, and then rows of the slot's window. Null stands for a row of zeros
// before the sequence.
template <typename T>
__device__ void RowsUnderTaps(const GdnConvParams& p, int row,
                              const T* taps[kMaxTaps]) {
  const int request = p.batch.request[row];
  const int first_row = p.batch.first_row[request];
  int tap = p.shape.conv_taps - 1;
  for (int node = p.batch.node[row]; node >= 0 && tap >= 0;
       node = p.batch.parent[first_row + node]) {
    taps[tap--] = ProjectedRow<T>(p, first_row + node);
  }
  const bool from_zero = p.batch.committed[request] == 0;
  const T* window =
      SlotWindow<T>(p.shape, p.states, p.batch.slot[request], p.layer);
  for (int back = 1; tap >= 0; ++back) {
    const int64_t at = p.shape.conv_taps - back;
    taps[tap--] = from_zero ? nullptr : window + at * p.shape.conv_width();
  }
}

// Returns 1 / |x| of a head as it is stored. Called by one warp.
template <typename T>
__device__ float InverseNorm(const T* x, int n) {
  float sum = 0;
  for (int c = threadIdx.x % 32; c < n; c += 32) {
    sum += ToFloat(x[c]) * ToFloat(x[c]);
  }
  return 1.0f / sqrtf(WarpSum(sum) + kKeyNormEpsilon);
}

// One block for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads) ConvKernel(GdnConvParams p) {
  __shared__ const T* taps[kMaxTaps];
  const int row = blockIdx.x;
  if (row >= *p.batch.rows.count) return;
  if (threadIdx.x == 0) RowsUnderTaps<T>(p, row, taps);
  __syncthreads();

  const GdnShape& s = p.shape;
  const FactorRows<T> factors(s, p.factors, p.layer);
  const int key_width = s.key_width();
  T* q = As<T>(p.q) + static_cast<int64_t>(row) * key_width;
  T* k = factors.k(row, 0);
  T* v = factors.v(row, 0);
  T* raw = factors.raw(row);
  const T* projected = ProjectedRow<T>(p, row);
  for (int c = threadIdx.x; c < s.conv_width(); c += kThreads) {
    const float* weight = p.conv_weight + static_cast<int64_t>(c) * s.conv_taps;
    float sum = 0;
    for (int t = 0; t < s.conv_taps; ++t) {
      if (taps[t] != nullptr) sum += weight[t] * ToFloat(taps[t][c]);
    }
    const T value = FromFloat<T>(Silu(sum));
    if (c < key_width) {
      q[c] = value;
    } else if (c < 2 * key_width) {
      k[c - key_width] = value;
    } else {
      v[c - 2 * key_width] = value;
    }
    raw[c] = projected[c];
  }
  for (int head = threadIdx.x; head < s.value_heads; head += kThreads) {
    const float a = ToFloat(projected[s.a_column() + head]);
    factors.beta(row, head) = Sigmoid(ToFloat(projected[s.b_column() + head]));
    factors.log_decay(row, head) =
        LogDecay(a, p.negative_exp_a[head], p.dt_bias[head]);
  }
  __syncthreads();

  const float q_factor = 1.0f / sqrtf(static_cast<float>(s.key_dim));
  for (int head = threadIdx.x / 32; head < s.key_heads; head += kThreads / 32) {
    const float q_norm = InverseNorm(q + head * s.key_dim, s.key_dim);
    const float k_norm = InverseNorm(k + head * s.key_dim, s.key_dim);
    if (threadIdx.x % 32 != 0) continue;
    p.q_scale[static_cast<int64_t>(row) * s.key_heads + head] =
        q_norm * q_factor;
    factors.k_scale(row, head) = k_norm;
  }
}

// One warp for each row and value head.
template <typename T>
__global__ void GatedNormKernel(GdnGatedNormParams p) {
  const int row = blockIdx.x;
  if (row >= *p.rows.count) return;
  const GdnShape& s = p.shape;
  const int dim = s.value_dim;
  const T* z = As<T>(p.projected) +
               static_cast<int64_t>(row) * s.projected_width() + s.z_column();
  for (int head = threadIdx.x / 32; head < s.value_heads;
       head += kThreads / 32) {
    const int64_t first =
        (static_cast<int64_t>(row) * s.value_heads + head) * dim;
    const T* o = As<T>(p.o) + first;
    T* out = As<T>(p.out) + first;
    float sum = 0;
    for (int c = threadIdx.x % 32; c < dim; c += 32) {
      sum += ToFloat(o[c]) * ToFloat(o[c]);
    }
    const float scale =
        1.0f / sqrtf(WarpSum(sum) / static_cast<float>(dim) + p.epsilon);
    for (int c = threadIdx.x % 32; c < dim; c += 32) {
      out[c] = FromFloat<T>(ToFloat(o[c]) * scale * p.weight[c] *
                            Silu(ToFloat(z[head * dim + c])));
    }
  }
}

}  // namespace

absl::Status PlainGdnConv(const GdnConvParams& params, const Launch& on) {
  if (params.shape.conv_taps > kMaxTaps) {
    return absl::UnimplementedError(
        absl::StrCat("GdnConv: ", params.shape.conv_taps,
                     " taps; the kernel holds up to ", kMaxTaps));
  }
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    ConvKernel<T><<<params.batch.rows.max, kThreads, 0, on.stream>>>(params);
  });
  return LaunchStatus("GdnConv");
}

absl::Status PlainGdnGatedNorm(const GdnGatedNormParams& params,
                               const Launch& on) {
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    GatedNormKernel<T><<<params.rows.max, kThreads, 0, on.stream>>>(params);
  });
  return LaunchStatus("GdnGatedNorm");
}

}  // namespace bole::cuda
