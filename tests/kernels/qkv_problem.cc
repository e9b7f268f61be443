#include "tests/kernels/qkv_problem.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "tests/testing/activations.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

QkvProblem::QkvProblem(std::mt19937& rng, AttentionProblem problem,
                       std::vector<float> frequency)
    : p(std::move(problem)),
      q_norm(NormalVector(rng, p.shape.head_dim)),
      k_norm(NormalVector(rng, p.shape.head_dim)),
      inverse_frequency(std::move(frequency)),
      rotary_scale(UniformInt(rng, 0, 1) == 0 ? 1.0f : 1.3f) {
  std::ranges::fill(p.q.span(0, p.q.size()), kUntouched);
  for (int row = 0; row < p.batch.num_rows(); ++row) {
    for (int head = 0; head < p.shape.query_heads; ++head) {
      FillNormal(rng, 1, Projected(row, 2 * head * p.shape.head_dim));
    }
    for (int head = 0; head < 2 * p.shape.kv_heads; ++head) {
      FillNormal(rng, 1,
                 Projected(row, p.shape.k_column() + head * p.shape.head_dim));
    }
  }
}

std::span<float> QkvProblem::Projected(int row, int column) {
  return p.projected.span(
      static_cast<size_t>(row) * p.shape.projected_width() + column,
      p.shape.head_dim);
}

QkvParams QkvProblem::Params(int layer) {
  return {.batch = p.batch.View(),
          .shape = p.shape,
          .pages = p.Pages(),
          .layer = layer,
          .first_key = p.first_key,
          .epsilon = kEpsilon,
          .projected = AsActivations(p.projected.data()),
          .q_norm = q_norm.data(),
          .k_norm = k_norm.data(),
          .inverse_frequency = inverse_frequency.data(),
          .rotary_scale = rotary_scale,
          .q = AsActivations(p.q.data())};
}

std::vector<float> InverseFrequencies(const AttentionShape& shape) {
  const int half = shape.rotary_dim / 2;
  std::vector<float> frequency(half);
  for (int i = 0; i < half; ++i) {
    frequency[i] =
        static_cast<float>(std::pow(1e7, -static_cast<double>(i) / half));
  }
  return frequency;
}

}  // namespace bole::testing
