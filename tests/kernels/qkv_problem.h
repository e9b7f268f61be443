// Random inputs of what prepares queries, keys and values, on the host.
#ifndef BOLE_TESTS_KERNELS_QKV_PROBLEM_H_
#define BOLE_TESTS_KERNELS_QKV_PROBLEM_H_

#include <random>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/attention_problem.h"

namespace bole::testing {

// Queries, keys and values of all rows are random in `projected`; the gates are
// what they were. q is untouched.
struct QkvProblem {
  static constexpr float kEpsilon = 0.01f;

  QkvProblem(std::mt19937& rng, AttentionProblem problem,
             std::vector<float> frequency);

  // [hd] from a column of a projected row on.
  std::span<float> Projected(int row, int column);
  // KV index of a row.
  int Index(int row) const {
    return p.first_key + p.batch.committed[p.batch.request[row]] +
           p.batch.node[row];
  }
  QkvParams Params(int layer);

  AttentionProblem p;
  std::vector<float> q_norm, k_norm, inverse_frequency;
  float rotary_scale;  // 1 or 1.3
};

// Those of models, of a shape.
std::vector<float> InverseFrequencies(const AttentionShape& shape);

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_QKV_PROBLEM_H_
