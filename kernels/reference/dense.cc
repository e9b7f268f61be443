#include "kernels/reference/dense.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/reference/activations.h"
#include "kernels/reference/packed_matrix.h"

namespace bole::reference {

void Embed(const EmbedParams& p) {
  const auto& table = static_cast<const PackedMatrix&>(*p.table);
  for (int i = 0; i < *p.rows.count; ++i) {
    table.CopyRow(p.token[i],
                  Floats(p.out) + static_cast<size_t>(i) * table.columns);
  }
}

void RmsNorm(const RmsNormParams& p) {
  for (int i = 0; i < *p.rows.count; ++i) {
    const float* x = Floats(p.x) + static_cast<size_t>(i) * p.width;
    float* out =
        Floats(p.out) + static_cast<size_t>(i) * p.out_stride + p.out_column;
    float sum = 0;
    for (int c = 0; c < p.width; ++c) sum += x[c] * x[c];
    const float scale =
        1 / std::sqrt(sum / static_cast<float>(p.width) + p.epsilon);
    for (int c = 0; c < p.width; ++c) out[c] = x[c] * scale * p.weight[c];
  }
}

void MatMul(const MatMulParams& p, ThreadPool& pool) {
  Multiply({.weight = static_cast<const PackedMatrix*>(p.weight),
            .x = Floats(p.x),
            .out = p.out_float != nullptr ? p.out_float : Floats(p.out),
            .num_rows = *p.rows.count,
            .accumulate = p.accumulate},
           pool);
}

void SiluMul(const SiluMulParams& p, ThreadPool& pool) {
  pool.ParallelFor(*p.rows.count, [&](int i) {
    const float* gate =
        Floats(p.gate_up) + static_cast<size_t>(i) * 2 * p.width;
    const float* up = gate + p.width;
    float* out = Floats(p.out) + static_cast<size_t>(i) * p.width;
    for (int c = 0; c < p.width; ++c) out[c] = Silu(gate[c]) * up[c];
  });
}

void GatherRows(const GatherRowsParams& p) {
  for (int i = 0; i < *p.rows.count; ++i) {
    const float* x = Floats(p.x) + static_cast<size_t>(p.index[i]) * p.width;
    std::copy_n(x, p.width, Floats(p.out) + static_cast<size_t>(i) * p.width);
  }
}

}  // namespace bole::reference
