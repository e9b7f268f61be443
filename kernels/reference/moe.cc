#include "kernels/reference/moe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/reference/activations.h"
#include "kernels/reference/packed_matrix.h"

namespace bole::reference {
namespace {

// A row that an expert works on, and the expert's weight for it.
struct Assignment {
  int row;
  float weight;
};

// out += weight * ffn(x) for the assigned rows.
struct Expert {
  const WeightMatrix* gate_up;
  const WeightMatrix* down;
};

std::vector<float> Project(const WeightMatrix* weight,
                           const std::vector<float>& x, ThreadPool& pool) {
  const auto* matrix = static_cast<const PackedMatrix*>(weight);
  const int num_rows = static_cast<int>(x.size()) / matrix->columns;
  std::vector<float> out(static_cast<size_t>(num_rows) * matrix->rows);
  Multiply({.weight = matrix,
            .x = x.data(),
            .out = out.data(),
            .num_rows = num_rows,
            .accumulate = false},
           pool);
  return out;
}

void RunExpert(const MoeParams& p, const Expert& expert,
               const std::vector<Assignment>& assigned, ThreadPool& pool) {
  if (assigned.empty()) return;
  const int hidden = expert.gate_up->columns;
  const int width = expert.down->columns;
  std::vector<float> x;
  for (const Assignment& a : assigned) {
    const float* row = Floats(p.x) + static_cast<size_t>(a.row) * hidden;
    x.insert(x.end(), row, row + hidden);
  }

  const std::vector<float> gate_up = Project(expert.gate_up, x, pool);
  std::vector<float> inner(assigned.size() * width);
  for (size_t i = 0; i < assigned.size(); ++i) {
    const float* gate = gate_up.data() + i * 2 * width;
    for (int c = 0; c < width; ++c) {
      inner[i * width + c] = Silu(gate[c]) * gate[width + c];
    }
  }
  const std::vector<float> y = Project(expert.down, inner, pool);

  for (size_t i = 0; i < assigned.size(); ++i) {
    float* out = Floats(p.out) + static_cast<size_t>(assigned[i].row) * hidden;
    for (int c = 0; c < hidden; ++c) {
      out[c] += assigned[i].weight * y[i * hidden + c];
    }
  }
}

// Appends the row to the lists of the experts it is routed to.
void Route(const float* logits, int row, int experts_per_token,
           std::vector<std::vector<Assignment>>& assigned) {
  std::vector<int> order(assigned.size());
  for (size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int>(e);
  std::partial_sort(order.begin(), order.begin() + experts_per_token,
                    order.end(), [logits](int a, int b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b]
                                                    : a < b;
                    });
  // Softmax over all experts, then division by the chosen ones' sum, is the
  // softmax over the chosen logits.
  float sum = 0;
  std::vector<float> weight(experts_per_token);
  for (int i = 0; i < experts_per_token; ++i) {
    weight[i] = std::exp(logits[order[i]] - logits[order[0]]);
    sum += weight[i];
  }
  for (int i = 0; i < experts_per_token; ++i) {
    assigned[order[i]].push_back({row, weight[i] / sum});
  }
}

}  // namespace

void Moe(const MoeParams& p, ThreadPool& pool) {
  const int num_rows = *p.rows.count;
  const int num_experts = p.router->rows;
  const int hidden = p.router->columns;
  const std::vector<float> x(
      Floats(p.x), Floats(p.x) + static_cast<size_t>(num_rows) * hidden);

  if (!p.accumulate) {
    std::fill_n(Floats(p.out), static_cast<size_t>(num_rows) * hidden, 0.0f);
  }

  const std::vector<float> logits = Project(p.router, x, pool);
  std::vector<std::vector<Assignment>> assigned(num_experts);
  for (int i = 0; i < num_rows; ++i) {
    Route(logits.data() + static_cast<size_t>(i) * num_experts, i,
          p.experts_per_token, assigned);
  }
  for (int e = 0; e < num_experts; ++e) {
    RunExpert(p, {p.gate_up[e], p.down[e]}, assigned[e], pool);
  }

  const std::vector<float> gate = Project(p.shared_gate, x, pool);
  std::vector<Assignment> shared;
  shared.reserve(num_rows);
  for (int i = 0; i < num_rows; ++i) shared.push_back({i, Sigmoid(gate[i])});
  RunExpert(p, {p.shared_gate_up, p.shared_down}, shared, pool);
}

}  // namespace bole::reference
