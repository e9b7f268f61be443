// Prepares a projected row for full attention: norm, rotation, and the write to
// the KV pages. There is a warp for each head.
#include <cstdint>

#include "kernels/cuda/attention/kv_rows.cuh"
#include "kernels/cuda/attention/qkv_units.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kWarps = 8;

// out = rotate(norm(x)): the first rotary_dim dimensions are turned in pairs
// (i, i + rotary_dim / 2) by position * inverse_frequency[i]. It is computed in
// float32 and rounded once; sine and cosine are accurate for the float32 angle,
// however large it is.
template <typename T>
__device__ void NormAndRotate(const QkvParams& p, const T* x,
                              const float* weight, int position, T* out) {
  const int dim = p.shape.head_dim;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0;
  for (int c = lane; c < dim; c += 32) sum += ToFloat(x[c]) * ToFloat(x[c]);
  const float scale =
      1.0f / sqrtf(WarpSum(sum) / static_cast<float>(dim) + p.epsilon);

  const int half = p.shape.rotary_dim / 2;
  for (int c = lane; c < half; c += 32) {
    const float angle = static_cast<float>(position) * p.inverse_frequency[c];
    const float cosine = cosf(angle) * p.rotary_scale;
    const float sine = sinf(angle) * p.rotary_scale;
    const float a = ToFloat(x[c]) * scale * weight[c];
    const float b = ToFloat(x[c + half]) * scale * weight[c + half];
    out[c] = FromFloat<T>(a * cosine - b * sine);
    out[c + half] = FromFloat<T>(b * cosine + a * sine);
  }
  for (int c = 2 * half + lane; c < dim; c += 32) {
    out[c] = FromFloat<T>(ToFloat(x[c]) * scale * weight[c]);
  }
}

// Grid: rows, the query heads and then the KV heads in groups of kWarps.
template <typename T>
__global__ void __launch_bounds__(32 * kWarps) PrepareQkvKernel(QkvParams p) {
  WaitForPrevious();
  StartNext();
  const AttentionShape& s = p.shape;
  const int row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * kWarps + threadIdx.x / 32);
  if (row >= *p.batch.rows.count || head >= s.query_heads + s.kv_heads) return;
  const int request = p.batch.request[row];
  const int committed = p.batch.committed[request];
  const int position = committed + p.batch.depth[row];
  const T* projected =
      As<T>(p.projected) + static_cast<int64_t>(row) * s.projected_width();
  if (head < s.query_heads) {
    const int64_t q_row = static_cast<int64_t>(row) * s.query_heads + head;
    NormAndRotate(p, projected + 2 * head * s.head_dim, p.q_norm, position,
                  As<T>(p.q) + q_row * s.head_dim);
    return;
  }

  const int kv_head = head - s.query_heads;
  const KvRows rows(p.batch, s, p.pages, request);
  const int64_t first = (rows.Row(p.first_key + committed + p.batch.node[row]) +
                         rows.Distance(p.layer, kv_head)) *
                        s.head_dim;
  NormAndRotate(p, projected + s.k_column() + kv_head * s.head_dim, p.k_norm,
                position, As<T>(p.pages.k) + first);
  const T* value = projected + s.v_column() + kv_head * s.head_dim;
  T* out = As<T>(p.pages.v) + first;
  for (int c = static_cast<int>(threadIdx.x) % 32; c < s.head_dim; c += 32) {
    out[c] = value[c];
  }
}

// The same as PrepareQkvKernel, with the vectors of qkv_units.cuh.
__global__ void __launch_bounds__(32 * kWarps)
    PrepareQkvUnitsKernel(QkvParams p) {
  __shared__ float2 turn[kUnitHeadDim / 2];
  const AttentionShape& s = p.shape;
  const int row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * kWarps + threadIdx.x / 32);
  const int kv_head = head - s.query_heads;
  const bool is_query = kv_head < 0;
  const bool is_key = !is_query && kv_head < s.kv_heads;
  StartNext();
  // No kernel writes weights, and the topology was written before the forward
  // pass.
  const Weight weight(is_query ? p.q_norm : p.k_norm);
  const bool exists = row < __ldcg(p.batch.rows.count);
  int64_t kv_row = 0;
  if (exists) {
    const int request = __ldcg(p.batch.request + row);
    const int committed = __ldcg(p.batch.committed + request);
    const int position = committed + __ldcg(p.batch.depth + row);
    if (is_key) {
      const KvRows rows(p.batch, s, p.pages, request);
      kv_row = rows.Row(p.first_key + committed + __ldcg(p.batch.node + row)) +
               rows.Distance(p.layer, kv_head);
    }
    if (static_cast<int>(threadIdx.x) < s.rotary_dim / 2) {
      const float angle =
          static_cast<float>(position) * p.inverse_frequency[threadIdx.x];
      turn[threadIdx.x] = {cosf(angle) * p.rotary_scale,
                           sinf(angle) * p.rotary_scale};
    }
  }
  WaitForPrevious();
  const BFloat16* projected = As<BFloat16>(p.projected) +
                              static_cast<int64_t>(row) * s.projected_width();
  Unit x = {};
  Unit value = {};
  if (exists && is_query) x = LoadUnit(projected + 2 * head * s.head_dim);
  if (exists && is_key) {
    x = LoadUnit(projected + s.k_column() + kv_head * s.head_dim);
    value = LoadUnit(projected + s.v_column() + kv_head * s.head_dim);
  }
  if (!exists) return;
  __syncthreads();
  x = NormAndRotateUnit(p, x, weight, turn);
  if (is_query) {
    const int64_t q_row = static_cast<int64_t>(row) * s.query_heads + head;
    StoreUnit(x, As<BFloat16>(p.q) + q_row * s.head_dim);
  }
  if (is_key) {
    StoreUnit(x, As<BFloat16>(p.pages.k) + kv_row * s.head_dim);
    StoreUnit(value, As<BFloat16>(p.pages.v) + kv_row * s.head_dim);
  }
}

}  // namespace

absl::Status PrepareQkv(const QkvParams& params, const Launch& on) {
  const int heads = params.shape.query_heads + params.shape.kv_heads;
  const LaunchShape shape = {
      .grid = dim3(params.batch.rows.max, (heads + kWarps - 1) / kWarps),
      .block = 32 * kWarps};
  void (*kernel)(QkvParams) = &PrepareQkvUnitsKernel;
  if (!HasUnits(params.shape, on.type)) {
    WithElement(on.type, [&](auto element) {
      kernel = &PrepareQkvKernel<decltype(element)>;
    });
  }
  return LaunchDependent("PrepareQkv", kernel, shape, on, params);
}

}  // namespace bole::cuda
