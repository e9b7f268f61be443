#include "kernels/reference/dense.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/reference/activations.h"
#include "kernels/reference/packed_matrix.h"

namespace bole::reference {
namespace {

struct NormRow {
  const float* x;       // [width]
  const float* weight;  // [width]
  int width;
  float epsilon;
};

// out [width]
void Normalize(const NormRow& row, float* out) {
  float sum = 0;
  for (int c = 0; c < row.width; ++c) sum += row.x[c] * row.x[c];
  const float scale =
      1 / std::sqrt(sum / static_cast<float>(row.width) + row.epsilon);
  for (int c = 0; c < row.width; ++c) {
    out[c] = row.x[c] * scale * row.weight[c];
  }
}

}  // namespace

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
    Normalize({x, p.weight, p.width, p.epsilon}, out);
  }
}

void DraftInputs(const DraftInputsParams& p) {
  const auto& table = static_cast<const PackedMatrix&>(*p.table);
  std::vector<float> embedding(p.width);
  for (int i = 0; i < *p.rows.count; ++i) {
    float* out = Floats(p.out) + static_cast<size_t>(i) * 2 * p.width;
    table.CopyRow(p.token[i], embedding.data());
    Normalize({embedding.data(), p.embedding_norm, p.width, p.epsilon}, out);
    const float* hidden =
        Floats(p.hidden) + static_cast<size_t>(p.hidden_row[i]) * p.width;
    Normalize({hidden, p.hidden_norm, p.width, p.epsilon}, out + p.width);
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
