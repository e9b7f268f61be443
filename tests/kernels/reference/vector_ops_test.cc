// On every instruction set of the machine. Small integers add up exactly in
// any order, so results are compared for equality.
#include "kernels/reference/vector_ops.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::FillNormal;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

GuardedBuffer<float> Integers(std::mt19937& rng, size_t size) {
  GuardedBuffer<float> x(size);
  for (float& value : x.span(0, size)) {
    value = static_cast<float>(UniformInt(rng, -9, 9));
  }
  return x;
}

class VectorOpsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  std::mt19937 rng_{1};
};

TEST_P(VectorOpsTest, DotAxpyAndScaleOfEveryLength) {
  for (int n = 0; n <= 200; ++n) {
    SCOPED_TRACE(n);
    const GuardedBuffer<float> a = Integers(rng_, n);
    const GuardedBuffer<float> b = Integers(rng_, n);
    GuardedBuffer<float> sum = b;
    GuardedBuffer<float> scaled = b;
    float dot = 0;
    for (int i = 0; i < n; ++i) dot += a[i] * b[i];

    Axpy(3, a.data(), sum.data(), n);
    Scale(-2, scaled.data(), n);

    EXPECT_EQ(Dot(a.data(), b.data(), n), dot);
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(sum[i], 3 * a[i] + b[i]);
      EXPECT_EQ(scaled[i], -2 * b[i]);
    }
    EXPECT_TRUE(sum.GuardsIntact() && scaled.GuardsIntact());
  }
}

// Rows of a, b and c lie `gap` elements apart; the gaps hold NaN.
struct Matrices {
  ProductSum product;
  GuardedBuffer<float> a, b, c;
};

Matrices MakeMatrices(std::mt19937& rng, bool transposed) {
  Matrices m;
  ProductSum& p = m.product;
  p.rows = UniformInt(rng, 0, 20);
  p.columns = UniformInt(rng, 0, 80);
  p.depth = UniformInt(rng, 0, 40);
  const size_t gap = UniformInt(rng, 0, 3);
  p.a_row = transposed ? 1 : p.depth + gap;
  p.a_depth = transposed ? p.rows + gap : 1;
  p.b_row = p.columns + gap;
  p.c_row = p.columns + gap;
  m.a =
      GuardedBuffer<float>(transposed ? p.depth * p.a_depth : p.rows * p.a_row);
  m.b = GuardedBuffer<float>(p.depth * p.b_row);
  m.c = GuardedBuffer<float>(p.rows * p.c_row);
  for (int i = 0; i < p.rows; ++i) {
    FillNormal(rng, 1, m.c.span(i * p.c_row, p.columns));
    for (int k = 0; k < p.depth; ++k) {
      FillNormal(rng, 1, m.a.span(i * p.a_row + k * p.a_depth, 1));
    }
  }
  for (int k = 0; k < p.depth; ++k) {
    FillNormal(rng, 1, m.b.span(k * p.b_row, p.columns));
  }
  p.a = m.a.data();
  p.b = m.b.data();
  p.c = m.c.data();
  return m;
}

// Element (i, j) as the only one of its product, from a compact row and column.
float AloneElement(const ProductSum& p, int i, int j) {
  float c = p.c[i * p.c_row + j];
  double exact = c;
  std::vector<float> row;
  std::vector<float> column;
  for (int k = 0; k < p.depth; ++k) {
    row.push_back(p.a[i * p.a_row + k * p.a_depth]);
    column.push_back(p.b[k * p.b_row + j]);
    exact += static_cast<double>(row.back()) * column.back();
  }
  AddProduct({.rows = 1,
              .columns = 1,
              .depth = p.depth,
              .a = row.data(),
              .a_row = 1,
              .a_depth = 1,
              .b = column.data(),
              .b_row = 1,
              .c = &c,
              .c_row = 1});
  // At most 40 products of normal numbers: 1e-5 is 4 roundoffs of 40.
  EXPECT_NEAR(c, exact, 1e-5);
  return c;
}

TEST_P(VectorOpsTest, AnElementOfAProductHasTheSameBitsAlone) {
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    Matrices m = MakeMatrices(rng_, /*transposed=*/round % 2 == 1);
    const ProductSum& p = m.product;
    GuardedBuffer<float> want = m.c;
    for (int i = 0; i < p.rows; ++i) {
      for (int j = 0; j < p.columns; ++j) {
        want[i * p.c_row + j] = AloneElement(p, i, j);
      }
    }

    AddProduct(p);

    EXPECT_TRUE(SameBits(m.c.all(), want.all()));
    EXPECT_TRUE(m.c.GuardsIntact());
  }
}

TEST_P(VectorOpsTest, AdvanceStateIsOneStepOfTheDeltaRule) {
  for (const int key_dim : {1, 7, 16, 33, 128}) {
    SCOPED_TRACE(key_dim);
    constexpr int kValueDim = 5;
    const GuardedBuffer<float> k = Integers(rng_, key_dim);
    const GuardedBuffer<float> q = Integers(rng_, key_dim);
    const GuardedBuffer<float> v = Integers(rng_, kValueDim);
    const GuardedBuffer<float> before = Integers(rng_, kValueDim * key_dim);
    GuardedBuffer<float> state = before;
    GuardedBuffer<float> out(kValueDim);

    // Powers of two keep the numbers exact.
    AdvanceState({.key_dim = key_dim,
                  .value_dim = kValueDim,
                  .decay = 0.5f,
                  .beta = 0.25f,
                  .k = k.data(),
                  .v = v.data(),
                  .q = q.data(),
                  .out = out.data()},
                 state.data());

    for (int c = 0; c < kValueDim; ++c) {
      const float* old = before.data() + c * key_dim;
      double read = 0;
      for (int d = 0; d < key_dim; ++d) read += 0.5 * old[d] * k[d];
      const double u = 0.25 * (v[c] - read);
      double want_out = 0;
      for (int d = 0; d < key_dim; ++d) {
        const double want = 0.5 * old[d] + u * k[d];
        EXPECT_EQ(state[c * key_dim + d], want);
        want_out += want * q[d];
      }
      EXPECT_EQ(out[c], want_out);
    }
    EXPECT_TRUE(state.GuardsIntact() && out.GuardsIntact());
  }
}

TEST_P(VectorOpsTest, ReadingTheStateDoesNotChangeItsBits) {
  for (int key_dim = 1; key_dim <= 140; ++key_dim) {
    constexpr int kValueDim = 3;
    GuardedBuffer<float> k(key_dim), v(kValueDim), state(kValueDim * key_dim);
    for (auto* x : {&k, &v, &state}) FillNormal(rng_, 1, x->span(0, x->size()));
    GuardedBuffer<float> read = state;
    GuardedBuffer<float> out(kValueDim);
    StateStep step = {.key_dim = key_dim,
                      .value_dim = kValueDim,
                      .decay = 0.3f,
                      .beta = 0.7f,
                      .k = k.data(),
                      .v = v.data(),
                      .q = nullptr,
                      .out = nullptr};

    AdvanceState(step, state.data());
    step.q = k.data();
    step.out = out.data();
    AdvanceState(step, read.data());

    EXPECT_TRUE(SameBits(read.all(), state.all())) << key_dim;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Targets, VectorOpsTest,
    ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
    [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

}  // namespace
}  // namespace bole::reference
