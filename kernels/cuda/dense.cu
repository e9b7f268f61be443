// The dense operators but for the products: one block for each row.
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void EmbedKernel(EmbedParams p, const T* table, int width) {
  const int row = blockIdx.x;
  if (row >= *p.rows.count) return;
  const T* from = table + static_cast<int64_t>(p.token[row]) * width;
  T* out = As<T>(p.out) + static_cast<int64_t>(row) * width;
  for (int c = threadIdx.x; c < width; c += kThreads) out[c] = from[c];
}

template <typename T>
__global__ void __launch_bounds__(kThreads) RmsNormKernel(RmsNormParams p) {
  __shared__ float shared[kThreads / 32];
  const int row = blockIdx.x;
  if (row >= *p.rows.count) return;
  const T* x = As<T>(p.x) + static_cast<int64_t>(row) * p.width;
  float sum = 0;
  for (int c = threadIdx.x; c < p.width; c += kThreads) {
    sum += ToFloat(x[c]) * ToFloat(x[c]);
  }
  sum = BlockSum<kThreads>(sum, shared);
  const float scale = rsqrtf(sum / static_cast<float>(p.width) + p.epsilon);
  T* out =
      As<T>(p.out) + static_cast<int64_t>(row) * p.out_stride + p.out_column;
  for (int c = threadIdx.x; c < p.width; c += kThreads) {
    out[c] = FromFloat<T>(ToFloat(x[c]) * scale * p.weight[c]);
  }
}

template <typename T>
__global__ void SiluMulKernel(SiluMulParams p) {
  const int row = blockIdx.y;
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (row >= *p.rows.count || c >= p.width) return;
  const T* gate = As<T>(p.gate_up) + static_cast<int64_t>(row) * 2 * p.width;
  As<T>(p.out)[static_cast<int64_t>(row) * p.width + c] =
      FromFloat<T>(Silu(ToFloat(gate[c])) * ToFloat(gate[p.width + c]));
}

template <typename T>
__global__ void GatherRowsKernel(GatherRowsParams p) {
  const int row = blockIdx.x;
  if (row >= *p.rows.count) return;
  const T* x = As<T>(p.x) + static_cast<int64_t>(p.index[row]) * p.width;
  T* out = As<T>(p.out) + static_cast<int64_t>(row) * p.width;
  for (int c = threadIdx.x; c < p.width; c += kThreads) out[c] = x[c];
}

}  // namespace

absl::Status Embed(const EmbedParams& params, const void* table, int width,
                   const Launch& on) {
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    EmbedKernel<T><<<params.rows.max, kThreads, 0, on.stream>>>(
        params, static_cast<const T*>(table), width);
  });
  return LaunchStatus("Embed");
}

absl::Status RmsNorm(const RmsNormParams& params, const Launch& on) {
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    RmsNormKernel<T><<<params.rows.max, kThreads, 0, on.stream>>>(params);
  });
  return LaunchStatus("RmsNorm");
}

absl::Status SiluMul(const SiluMulParams& params, const Launch& on) {
  const dim3 grid((params.width + kThreads - 1) / kThreads, params.rows.max);
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    SiluMulKernel<T><<<grid, kThreads, 0, on.stream>>>(params);
  });
  return LaunchStatus("SiluMul");
}

absl::Status GatherRows(const GatherRowsParams& params, const Launch& on) {
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    GatherRowsKernel<T><<<params.rows.max, kThreads, 0, on.stream>>>(params);
  });
  return LaunchStatus("GatherRows");
}

}  // namespace bole::cuda
