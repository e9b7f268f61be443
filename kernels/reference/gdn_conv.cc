#include "kernels/reference/gdn_conv.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/reference/activations.h"
#include "kernels/reference/gdn_views.h"
#include "kernels/reference/vector_ops.h"

namespace bole::reference {
namespace {

constexpr float kNormEpsilon = 1e-6f;
// Beyond this log(1 + e^x) is x in float32.
constexpr float kSoftplusIdentity = 20.0f;

float Softplus(float x) {
  return x > kSoftplusIdentity ? x : std::log1p(std::exp(x));
}

const float* ProjectedRow(const GdnConvParams& p, int row) {
  return Floats(p.projected) +
         static_cast<size_t>(row) * p.shape.projected_width();
}

// The raw rows under the taps, oldest first: the row, its ancestors, then the
// slot's window. Null stands for a zero row before the sequence.
void RowsUnderTaps(const GdnConvParams& p, int row,
                   std::vector<const float*>& taps) {
  const int request = p.batch.request[row];
  const int first_row = p.batch.first_row[request];
  const int num_taps = p.shape.conv_taps;
  taps.assign(num_taps, nullptr);
  int tap = num_taps - 1;
  for (int node = p.batch.node[row]; node >= 0 && tap >= 0;
       node = p.batch.parent[first_row + node]) {
    taps[tap--] = ProjectedRow(p, first_row + node);
  }
  if (p.batch.committed[request] == 0) return;
  const float* window =
      SlotWindow(p.shape, p.states, p.batch.slot[request], p.layer);
  for (int back = 1; tap >= 0; ++back) {
    taps[tap--] =
        window + static_cast<size_t>(num_taps - back) * p.shape.conv_width();
  }
}

// out[c] = silu(convolution) of channels first .. first + count - 1.
void Convolve(const GdnConvParams& p, const std::vector<const float*>& taps,
              int first, int count, float* out) {
  const int num_taps = p.shape.conv_taps;
  for (int i = 0; i < count; ++i) {
    const int channel = first + i;
    const float* weight =
        p.conv_weight + static_cast<size_t>(channel) * num_taps;
    float sum = 0;
    for (int t = 0; t < num_taps; ++t) {
      if (taps[t] != nullptr) sum += weight[t] * taps[t][channel];
    }
    out[i] = Silu(sum);
  }
}

float InverseNorm(const float* x, int n) {
  return 1 / std::sqrt(Dot(x, x, n) + kNormEpsilon);
}

void ConvolveRow(const GdnConvParams& p, const GdnFactorRows& factors,
                 int row) {
  thread_local std::vector<const float*> taps;
  const GdnShape& s = p.shape;
  RowsUnderTaps(p, row, taps);
  float* q = Floats(p.q) + static_cast<size_t>(row) * s.key_width();
  Convolve(p, taps, 0, s.key_width(), q);
  Convolve(p, taps, s.key_width(), s.key_width(), factors.k(row, 0));
  Convolve(p, taps, 2 * s.key_width(), s.value_width(), factors.v(row, 0));

  const float q_factor = 1 / std::sqrt(static_cast<float>(s.key_dim));
  float* q_scale = p.q_scale + static_cast<size_t>(row) * s.key_heads;
  for (int head = 0; head < s.key_heads; ++head) {
    q_scale[head] =
        InverseNorm(q + static_cast<size_t>(head) * s.key_dim, s.key_dim) *
        q_factor;
    factors.k_scale(row, head) = InverseNorm(factors.k(row, head), s.key_dim);
  }
}

void GateRow(const GdnConvParams& p, const GdnFactorRows& factors, int row) {
  const float* projected = ProjectedRow(p, row);
  const float* b = projected + p.shape.b_column();
  const float* a = projected + p.shape.a_column();
  for (int head = 0; head < p.shape.value_heads; ++head) {
    factors.beta(row, head) = Sigmoid(b[head]);
    factors.log_decay(row, head) =
        p.negative_exp_a[head] * Softplus(a[head] + p.dt_bias[head]);
  }
}

}  // namespace

void GdnConv(const GdnConvParams& p, ThreadPool& pool) {
  const GdnFactorRows factors(p.shape, p.factors, p.layer);
  pool.ParallelFor(*p.batch.rows.count, [&](int row) {
    ConvolveRow(p, factors, row);
    GateRow(p, factors, row);
    std::copy_n(ProjectedRow(p, row), p.shape.conv_width(), factors.raw(row));
  });
}

}  // namespace bole::reference
