#include "kernels/reference/gdn_gated_norm.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AsActivations;
using ::bole::testing::FillNormal;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::NormalVector;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

constexpr float kEpsilon = 0.01f;
constexpr int kSpareRows = 2;

struct NormProblem {
  GdnShape shape;
  int32_t num_rows;
  GuardedBuffer<float> o, projected, out;
  std::vector<float> weight;

  GdnGatedNormParams Params() {
    return {.rows = {.count = &num_rows, .max = num_rows + kSpareRows},
            .shape = shape,
            .epsilon = kEpsilon,
            .o = AsActivations(o.data()),
            .projected = AsActivations(projected.data()),
            .weight = weight.data(),
            .out = AsActivations(out.data())};
  }
  size_t used() const { return num_rows * shape.value_width(); }
};

// Only z of the projected row is filled in: the rest stays NaN.
NormProblem MakeProblem(std::mt19937& rng) {
  const GdnShape shape = {.key_heads = 1,
                          .value_heads = UniformInt(rng, 1, 5),
                          .key_dim = UniformInt(rng, 1, 9),
                          .value_dim = UniformInt(rng, 1, 140),
                          .conv_taps = 4};
  const int num_rows = UniformInt(rng, 0, 9);
  const size_t capacity = num_rows + kSpareRows;
  NormProblem p = {
      .shape = shape,
      .num_rows = num_rows,
      .o = GuardedBuffer<float>(capacity * shape.value_width()),
      .projected = GuardedBuffer<float>(capacity * shape.projected_width()),
      .out = GuardedBuffer<float>(capacity * shape.value_width()),
      .weight = NormalVector(rng, shape.value_dim)};
  FillNormal(rng, 1, p.o.span(0, p.used()));
  for (int row = 0; row < num_rows; ++row) {
    FillNormal(
        rng, 5,
        p.projected.span(static_cast<size_t>(row) * shape.projected_width() +
                             shape.z_column(),
                         shape.value_width()));
  }
  return p;
}

double Want(const NormProblem& p, int row, int head, int c) {
  const int dim = p.shape.value_dim;
  const size_t first =
      static_cast<size_t>(row) * p.shape.value_width() + head * dim;
  double sum = 0;
  for (const float o : p.o.span(first, dim)) sum += static_cast<double>(o) * o;
  const double z =
      p.projected[static_cast<size_t>(row) * p.shape.projected_width() +
                  p.shape.z_column() + head * dim + c];
  return p.o[first + c] / std::sqrt(sum / dim + kEpsilon) * p.weight[c] * z /
         (1 + std::exp(-z));
}

TEST(GdnGatedNormTest, IsTheNormTimesTheGate) {
  ThreadPool pool(2);
  std::mt19937 rng(1);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    NormProblem p = MakeProblem(rng);

    GdnGatedNorm(p.Params(), pool);

    // dv squares of one sign under a root, then products and a sigmoid.
    const double roundoffs = p.shape.value_dim / 2.0 + 12;
    for (size_t i = 0; i < p.used(); ++i) {
      const int width = p.shape.value_width();
      const int column = static_cast<int>(i) % width;
      const double want =
          Want(p, static_cast<int>(i) / width, column / p.shape.value_dim,
               column % p.shape.value_dim);
      ASSERT_NEAR(p.out[i], want, roundoffs * kFloatRoundoff * std::abs(want))
          << i;
    }
    for (size_t i = p.used(); i < p.out.size(); ++i) {
      EXPECT_TRUE(std::isnan(p.out[i]));
    }
    EXPECT_TRUE(p.out.GuardsIntact());
  }
}

TEST(GdnGatedNormTest, MayWorkInPlace) {
  ThreadPool pool(2);
  std::mt19937 rng(2);
  NormProblem apart = MakeProblem(rng);
  NormProblem in_place = apart;
  GdnGatedNormParams params = in_place.Params();
  params.out = AsActivations(in_place.o.data());

  GdnGatedNorm(apart.Params(), pool);
  GdnGatedNorm(params, pool);

  EXPECT_GT(apart.num_rows, 0);
  EXPECT_TRUE(SameBits(in_place.o.span(0, apart.used()),
                       apart.out.span(0, apart.used())));
}

}  // namespace
}  // namespace bole::reference
