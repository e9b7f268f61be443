#include "kernels/reference/moe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "tests/kernels/reference/host_matrix.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AsActivations;
using ::bole::testing::FillNormal;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HostMatrix;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::RandomMatrix;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

constexpr int kSpareRows = 2;
constexpr float kUntouched = -7777;

struct Ffn {
  HostMatrix gate_up;  // [2 m, H]
  HostMatrix down;     // [H, m]
};

Ffn RandomFfn(std::mt19937& rng, int hidden, int width) {
  return {RandomMatrix(rng, 2 * width, hidden, 0.4f),
          RandomMatrix(rng, hidden, width, 0.4f)};
}

struct MoeSizes {
  int num_rows;
  int hidden;
  int num_experts;
  int experts_per_token;
};

// Spare rows of x are NaN, those of `out` untouched.
struct MoeProblem {
  MoeProblem(std::mt19937& rng, const MoeSizes& sizes)
      : num_rows(sizes.num_rows),
        hidden(sizes.hidden),
        experts_per_token(sizes.experts_per_token),
        router(RandomMatrix(rng, sizes.num_experts, hidden)),
        shared_gate(RandomMatrix(rng, 1, hidden)),
        shared(RandomFfn(rng, hidden, UniformInt(rng, 1, 40))),
        x(static_cast<size_t>(num_rows + kSpareRows) * hidden),
        start(x.size()),
        out(x.size()) {
    const int width = UniformInt(rng, 1, 40);
    for (int e = 0; e < sizes.num_experts; ++e) {
      experts.push_back(RandomFfn(rng, hidden, width));
    }
    FillNormal(rng, 1, x.span(0, used()));
    std::ranges::fill(start.span(0, start.size()), kUntouched);
    FillNormal(rng, 1, start.span(0, used()));
  }

  size_t used() const { return static_cast<size_t>(num_rows) * hidden; }

  // `count` rows from first_row on, from their start.
  void Run(ThreadPool& pool, size_t first_row, int32_t count) {
    out = start;
    std::vector<const WeightMatrix*> gate_up;
    std::vector<const WeightMatrix*> down;
    for (const Ffn& expert : experts) {
      gate_up.push_back(expert.gate_up.packed.get());
      down.push_back(expert.down.packed.get());
    }
    Moe({.rows = {.count = &count, .max = count + kSpareRows},
         .experts_per_token = experts_per_token,
         .x = AsActivations(x.data() + first_row * hidden),
         .router = router.packed.get(),
         .gate_up = gate_up,
         .down = down,
         .shared_gate = shared_gate.packed.get(),
         .shared_gate_up = shared.gate_up.packed.get(),
         .shared_down = shared.down.packed.get(),
         .out = AsActivations(out.data() + first_row * hidden),
         .accumulate = accumulate},
        pool);
  }
  void Run(ThreadPool& pool) { Run(pool, 0, num_rows); }

  int32_t num_rows;
  int hidden;
  int experts_per_token;
  bool accumulate = true;
  HostMatrix router, shared_gate;
  Ffn shared;
  std::vector<Ffn> experts;
  GuardedBuffer<float> x, start, out;
};

// A value in double, and how far off float arithmetic may be.
struct Approx {
  double value;
  double error;
};

Approx Dot(std::span<const float> w, std::span<const Approx> x) {
  Approx sum = {0, 0};
  double magnitude = 0;
  for (size_t c = 0; c < w.size(); ++c) {
    sum.value += w[c] * x[c].value;
    sum.error += std::abs(w[c]) * x[c].error;
    magnitude += std::abs(w[c]) * (std::abs(x[c].value) + x[c].error);
  }
  // A chain of as many additions, the product the first rounding.
  sum.error += static_cast<double>(w.size() + 1) * kFloatRoundoff * magnitude;
  return sum;
}

double ExactSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Approx> RunFfn(const Ffn& ffn, std::span<const Approx> x) {
  const int width = ffn.down.columns;
  std::vector<Approx> inner;
  for (int c = 0; c < width; ++c) {
    const Approx gate = Dot(ffn.gate_up.row(c), x);
    const Approx up = Dot(ffn.gate_up.row(width + c), x);
    const double silu = gate.value * ExactSigmoid(gate.value);
    // The slope of silu is at most 1.1; it and the product round six times.
    inner.push_back(
        {silu * up.value, 1.1 * gate.error * (std::abs(up.value) + up.error) +
                              std::abs(silu) * up.error +
                              6 * kFloatRoundoff * std::abs(silu * up.value)});
  }
  std::vector<Approx> y(ffn.down.rows);
  for (size_t o = 0; o < y.size(); ++o) y[o] = Dot(ffn.down.row(o), inner);
  return y;
}

// out += weight * y, two roundings.
void AddWeighted(const Approx& weight, std::span<const Approx> y,
                 std::vector<Approx>& out) {
  for (size_t c = 0; c < out.size(); ++c) {
    const double term = weight.value * y[c].value;
    out[c].value += term;
    out[c].error +=
        weight.error * (std::abs(y[c].value) + y[c].error) +
        std::abs(weight.value) * y[c].error +
        kFloatRoundoff * (2 * std::abs(term) + std::abs(out[c].value));
  }
}

// The chosen experts, best first.
std::vector<int> Choose(const MoeProblem& p, std::span<const Approx> logits) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int a, int b) { return logits[a].value > logits[b].value; });
  for (size_t i = 1; i < order.size(); ++i) {
    const double gap = logits[order[i - 1]].value - logits[order[i]].value;
    const double error = logits[order[i - 1]].error + logits[order[i]].error;
    EXPECT_TRUE(gap == 0 || gap > error) << "rounding decides";
  }
  order.resize(p.experts_per_token);
  return order;
}

// The definition: softmax over all experts, the best divided by their sum.
std::vector<Approx> WantRow(const MoeProblem& p, size_t row) {
  std::vector<Approx> x;
  std::vector<Approx> out;
  for (size_t c = row * p.hidden; c < (row + 1) * p.hidden; ++c) {
    x.push_back({p.x[c], 0});
    out.push_back({p.start[c], 0});
  }
  std::vector<Approx> logits;
  double total = 0;
  for (int e = 0; e < p.router.rows; ++e) {
    logits.push_back(Dot(p.router.row(e), x));
    total += std::exp(logits.back().value);
  }
  double error = 0;
  for (const Approx& logit : logits) error = std::max(error, logit.error);
  double chosen = 0;
  for (const int e : Choose(p, logits)) {
    chosen += std::exp(logits[e].value) / total;
  }
  for (const int e : Choose(p, logits)) {
    const double weight = std::exp(logits[e].value) / total / chosen;
    // A logit counts in its own exponential and in the sum of all. Differences
    // of at most 50, exponentials, their sum and the division round as well.
    const double relative =
        2.01 * error + (2 * 50 + p.experts_per_token + 6) * kFloatRoundoff;
    AddWeighted({weight, weight * relative}, RunFfn(p.experts[e], x), out);
  }
  const Approx gate = Dot(p.shared_gate.row(0), x);
  AddWeighted({ExactSigmoid(gate.value), gate.error / 4 + 4 * kFloatRoundoff},
              RunFfn(p.shared, x), out);
  return out;
}

void ExpectIsTheDefinition(const MoeProblem& p) {
  for (int row = 0; row < p.num_rows; ++row) {
    const std::vector<Approx> want = WantRow(p, row);
    for (int c = 0; c < p.hidden; ++c) {
      ASSERT_NEAR(p.out[row * p.hidden + c], want[c].value, want[c].error)
          << "row " << row << ", column " << c;
    }
  }
  for (const float value : p.out.span(p.used(), p.out.size() - p.used())) {
    EXPECT_EQ(value, kUntouched);
  }
  EXPECT_TRUE(p.out.GuardsIntact());
}

MoeSizes RandomSizes(std::mt19937& rng) {
  const int num_experts = UniformInt(rng, 1, 12);
  return {.num_rows = UniformInt(rng, 0, 12),
          .hidden = UniformInt(rng, 1, 40),
          .num_experts = num_experts,
          .experts_per_token = UniformInt(rng, 1, num_experts)};
}

TEST(MoeTest, AddsTheBestExpertsAndTheSharedOne) {
  std::mt19937 rng(1);
  ThreadPool pool(2);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    MoeProblem p(rng, RandomSizes(rng));

    p.Run(pool);

    ExpectIsTheDefinition(p);
  }
}

TEST(MoeTest, WhatIsThereCanBeOverwritten) {
  std::mt19937 rng(5);
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    MoeProblem p(rng, RandomSizes(rng));
    p.accumulate = false;
    p.Run(pool);
    const GuardedBuffer<float> overwritten = p.out;

    p.accumulate = true;
    std::ranges::fill(p.start.span(0, p.used()), 0.0f);
    p.Run(pool);

    EXPECT_TRUE(SameBits(overwritten.span(0, p.out.size()),
                         p.out.span(0, p.out.size())));
    EXPECT_TRUE(overwritten.GuardsIntact());
  }
}

// Every expert has an equal one; that of the last expert chosen is often left
// out.
TEST(MoeTest, TiesGoToTheLowerExpert) {
  std::mt19937 rng(2);
  ThreadPool pool(2);
  for (int experts_per_token = 1; experts_per_token <= 8; ++experts_per_token) {
    SCOPED_TRACE(experts_per_token);
    MoeProblem p(rng, {.num_rows = 6,
                       .hidden = 20,
                       .num_experts = 8,
                       .experts_per_token = experts_per_token});
    const auto row_of = [&](int e) { return p.router.values.begin() + e * 20; };
    for (const auto& [e, twin] : {std::pair{0, 5}, {1, 7}, {2, 3}, {4, 6}}) {
      std::copy_n(row_of(e), 20, row_of(twin));
    }
    p.router.packed->SetRows(0, p.router.values);

    p.Run(pool);

    ExpectIsTheDefinition(p);
  }
}

TEST(MoeTest, ExpertsThatNoRowChoseAreNotRead) {
  std::mt19937 rng(3);
  ThreadPool pool(2);
  MoeProblem p(
      rng,
      {.num_rows = 5, .hidden = 16, .num_experts = 8, .experts_per_token = 3});
  std::ranges::fill(p.router.values, 0.5f);  // All tie: 0, 1 and 2 are chosen.
  p.router.packed->SetRows(0, p.router.values);
  for (int e = 3; e < 8; ++e) {
    HostMatrix& down = p.experts[e].down;
    down.packed->SetRows(0, std::vector<float>(down.values.size(), NAN));
  }

  p.Run(pool);

  ExpectIsTheDefinition(p);
}

TEST(MoeTest, ARowHasTheBitsItHasAlone) {
  std::mt19937 rng(4);
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    MoeSizes sizes = RandomSizes(rng);
    sizes.num_rows = UniformInt(rng, 1, 40);
    MoeProblem p(rng, sizes);
    p.Run(pool);
    const GuardedBuffer<float> batch = p.out;

    for (int row = 0; row < p.num_rows; ++row) {
      const size_t first = static_cast<size_t>(row) * p.hidden;
      p.Run(pool, row, 1);

      EXPECT_TRUE(
          SameBits(p.out.span(first, p.hidden), batch.span(first, p.hidden)))
          << row;
    }
  }
}

}  // namespace
}  // namespace bole::reference
