#include "kernels/reference/dense.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/reference/host_matrix.h"
#include "tests/kernels/reference/spare_rows.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AsActivations;
using ::bole::testing::Count;
using ::bole::testing::ExpectNothingWrittenFrom;
using ::bole::testing::FillNormal;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HostMatrix;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::kSpareRows;
using ::bole::testing::kUntouched;
using ::bole::testing::NormalVector;
using ::bole::testing::RandomMatrix;
using ::bole::testing::RandomRows;
using ::bole::testing::Rows;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

constexpr float kEpsilon = 0.01f;

TEST(EmbedTest, CopiesTheTablesRowOfEveryToken) {
  std::mt19937 rng(1);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const int32_t num_rows = UniformInt(rng, 0, 9);
    const int width = UniformInt(rng, 1, 40);
    const HostMatrix table = RandomMatrix(rng, 70, width);
    GuardedBuffer<int32_t> token(num_rows + kSpareRows);
    for (int i = 0; i < num_rows; ++i) token[i] = UniformInt(rng, 0, 69);
    GuardedBuffer<float> out = Rows(num_rows, width);

    Embed({.rows = Count(num_rows),
           .token = token.data(),
           .table = table.packed.get(),
           .out = AsActivations(out.data())});

    const size_t size = width;
    for (int i = 0; i < num_rows; ++i) {
      EXPECT_TRUE(SameBits(out.span(i * size, size), table.row(token[i])));
    }
    ExpectNothingWrittenFrom(num_rows * size, out);
  }
}

TEST(GatherRowsTest, CopiesTheRowOfEveryIndex) {
  std::mt19937 rng(1);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const int32_t num_rows = UniformInt(rng, 0, 9);
    const int width = UniformInt(rng, 1, 40);
    const GuardedBuffer<float> x = RandomRows(rng, 5, width);
    GuardedBuffer<int32_t> index(num_rows + kSpareRows);
    for (int i = 0; i < num_rows; ++i) index[i] = UniformInt(rng, 0, 4);
    GuardedBuffer<float> out = Rows(num_rows, width);

    GatherRows({.rows = Count(num_rows),
                .width = width,
                .index = index.data(),
                .x = AsActivations(x.data()),
                .out = AsActivations(out.data())});

    const size_t size = width;
    for (int i = 0; i < num_rows; ++i) {
      EXPECT_TRUE(
          SameBits(out.span(i * size, size), x.span(index[i] * size, size)));
    }
    ExpectNothingWrittenFrom(num_rows * size, out);
  }
}

struct NormProblem {
  RmsNormParams Params() {
    return {.rows = Count(num_rows),
            .width = width,
            .epsilon = kEpsilon,
            .x = AsActivations(x.data()),
            .weight = weight.data(),
            .out = AsActivations(out.data()),
            .out_stride = stride,
            .out_column = column};
  }

  int32_t num_rows;
  int width, stride, column;
  GuardedBuffer<float> x, out;
  std::vector<float> weight;
};

// Rows of all magnitudes, so that epsilon is all, some or nothing of the norm.
NormProblem MakeNorm(std::mt19937& rng) {
  NormProblem p;
  p.num_rows = UniformInt(rng, 0, 9);
  p.width = UniformInt(rng, 1, 300);
  p.column = UniformInt(rng, 0, 20);
  p.stride = p.column + p.width + UniformInt(rng, 0, 20);
  p.x = RandomRows(rng, p.num_rows, p.width);
  p.out = Rows(p.num_rows, p.stride);
  p.weight = NormalVector(rng, p.width);
  for (int i = 0; i < p.num_rows; ++i) {
    const float deviations[] = {1e-9f, 1e-3f, 0.1f, 1.0f, 1e3f};
    FillNormal(rng, deviations[UniformInt(rng, 0, 4)],
               p.x.span(static_cast<size_t>(i) * p.width, p.width));
  }
  return p;
}

// What row i, column `column` of the output should hold.
double WantNorm(const NormProblem& p, int i, int column) {
  const int c = column - p.column;
  if (i >= p.num_rows || c < 0 || c >= p.width) return kUntouched;
  const size_t first = static_cast<size_t>(i) * p.width;
  double sum = 0;
  for (const float x : p.x.span(first, p.width)) {
    sum += static_cast<double>(x) * x;
  }
  return p.x[first + c] / std::sqrt(sum / p.width + kEpsilon) * p.weight[c];
}

TEST(RmsNormTest, IsTheNormInItsColumnsAndWritesNothingElse) {
  std::mt19937 rng(2);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    NormProblem p = MakeNorm(rng);

    RmsNorm(p.Params());

    // `width` squares of one sign are added up: each is rounded at most width
    // times, and the root halves it. Then a division, a sum, a root, a
    // reciprocal and two products.
    const double relative = (p.width / 2.0 + 6) * kFloatRoundoff;
    for (size_t i = 0; i < p.out.size(); ++i) {
      const double want = WantNorm(p, static_cast<int>(i) / p.stride,
                                   static_cast<int>(i) % p.stride);
      const double tolerance =
          want == kUntouched ? 0 : relative * std::abs(want);
      ASSERT_NEAR(p.out[i], want, tolerance) << i;
    }
    EXPECT_TRUE(p.out.GuardsIntact());
  }
}

TEST(RmsNormTest, ARowHasTheBitsItHasAlone) {
  std::mt19937 rng(3);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    NormProblem batch = MakeNorm(rng);
    RmsNorm(batch.Params());

    for (int i = 0; i < batch.num_rows; ++i) {
      NormProblem alone = batch;
      alone.num_rows = 1;
      RmsNormParams params = alone.Params();
      params.x = AsActivations(&alone.x[static_cast<size_t>(i) * alone.width]);
      RmsNorm(params);

      EXPECT_TRUE(SameBits(
          alone.out.span(alone.column, alone.width),
          batch.out.span(static_cast<size_t>(i) * batch.stride + batch.column,
                         batch.width)));
    }
  }
}

struct MatMulProblem {
  explicit MatMulProblem(std::mt19937& rng)
      : num_rows(UniformInt(rng, 0, 20)),
        weight(
            RandomMatrix(rng, UniformInt(rng, 1, 70), UniformInt(rng, 1, 40))),
        x(RandomRows(rng, num_rows, weight.columns)),
        out(Rows(num_rows, weight.rows)) {
    FillNormal(rng, 1, out.span(0, used()));
  }

  MatMulParams Params() {
    return {.rows = Count(num_rows),
            .x = AsActivations(x.data()),
            .weight = weight.packed.get(),
            .out = AsActivations(out.data()),
            .out_float = nullptr,
            .accumulate = false};
  }
  size_t used() const { return static_cast<size_t>(num_rows) * weight.rows; }

  int32_t num_rows;
  HostMatrix weight;
  GuardedBuffer<float> x, out;
};

// x W^T is PackedMatrix's, whose tests look at its values.
std::vector<double> WantMatMul(const MatMulProblem& p) {
  std::vector<double> want;
  for (int i = 0; i < p.num_rows; ++i) {
    for (int o = 0; o < p.weight.rows; ++o) {
      double sum = 0;
      for (int c = 0; c < p.weight.columns; ++c) {
        sum += static_cast<double>(p.x[i * p.weight.columns + c]) *
               p.weight.row(o)[c];
      }
      want.push_back(sum);
    }
  }
  return want;
}

TEST(MatMulTest, WritesOrAddsTheProductToEitherOutput) {
  std::mt19937 rng(4);
  ThreadPool pool(2);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    MatMulProblem p(rng);
    const GuardedBuffer<float> before = p.out;
    MatMulParams params = p.Params();
    params.accumulate = round % 2 == 1;
    if (round % 4 >= 2) {
      params.out = nullptr;
      params.out_float = p.out.data();
    }

    MatMul(params, pool);

    const std::vector<double> want = WantMatMul(p);
    // 40 products of normal numbers: their absolute values add up to about 26,
    // never to 100, and each is rounded at most 42 times.
    for (size_t i = 0; i < p.used(); ++i) {
      const double start = params.accumulate ? before[i] : 0;
      ASSERT_NEAR(p.out[i], start + want[i], 42 * kFloatRoundoff * 100) << i;
    }
    ExpectNothingWrittenFrom(p.used(), p.out);
  }
}

TEST(MatMulTest, ARowHasTheBitsItHasAlone) {
  std::mt19937 rng(5);
  ThreadPool pool(2);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    MatMulProblem p(rng);
    MatMul(p.Params(), pool);

    const int32_t one = 1;
    std::vector<float> alone(p.weight.rows);
    for (size_t i = 0; i < static_cast<size_t>(p.num_rows); ++i) {
      MatMulParams params = p.Params();
      params.rows = {.count = &one, .max = 1};
      params.x = AsActivations(&p.x[i * p.weight.columns]);
      params.out = AsActivations(alone.data());
      MatMul(params, pool);

      EXPECT_TRUE(
          SameBits(alone, p.out.span(i * p.weight.rows, p.weight.rows)));
    }
  }
}

TEST(SiluMulTest, IsTheGatedProductOfEveryMagnitude) {
  std::mt19937 rng(6);
  ThreadPool pool(2);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const int32_t num_rows = UniformInt(rng, 0, 9);
    const size_t width = UniformInt(rng, 1, 60);
    const int columns = static_cast<int>(width);
    const GuardedBuffer<float> gate_up =
        RandomRows(rng, num_rows, 2 * columns, round % 3 == 0 ? 100.0f : 2.0f);
    GuardedBuffer<float> out = Rows(num_rows, columns);

    SiluMul({.rows = Count(num_rows),
             .width = columns,
             .gate_up = AsActivations(gate_up.data()),
             .out = AsActivations(out.data())},
            pool);

    for (size_t i = 0; i < num_rows * width; ++i) {
      const size_t at = i / width * 2 * width + i % width;
      const double gate = gate_up[at];
      const double up = gate_up[at + width];
      // Two roundings of the exponential, then a sum, a reciprocal and two
      // products; exp(-gate) overflows where its reciprocal is no longer a
      // normal number.
      const double tolerance =
          6 * kFloatRoundoff * std::abs(gate * up / (1 + std::exp(-gate))) +
          std::numeric_limits<float>::min() * std::abs(gate * up);
      ASSERT_NEAR(out[i], gate * up / (1 + std::exp(-gate)), tolerance) << i;
    }
    ExpectNothingWrittenFrom(num_rows * width, out);
  }
}

TEST(SiluMulTest, ARowHasTheBitsItHasAlone) {
  std::mt19937 rng(7);
  ThreadPool pool(2);
  constexpr size_t kWidth = 37;
  const int32_t num_rows = 20;
  const int32_t one = 1;
  const GuardedBuffer<float> gate_up = RandomRows(rng, num_rows, 2 * kWidth);
  GuardedBuffer<float> out = Rows(num_rows, kWidth);
  SiluMul({.rows = Count(num_rows),
           .width = kWidth,
           .gate_up = AsActivations(gate_up.data()),
           .out = AsActivations(out.data())},
          pool);

  for (size_t i = 0; i < num_rows; ++i) {
    std::vector<float> alone(kWidth);
    SiluMul({.rows = {.count = &one, .max = 1},
             .width = kWidth,
             .gate_up = AsActivations(&gate_up[i * 2 * kWidth]),
             .out = AsActivations(alone.data())},
            pool);

    EXPECT_TRUE(SameBits(alone, out.span(i * kWidth, kWidth))) << i;
  }
}

TEST(DenseTest, ACopyChangesNothingButItsTarget) {
  std::vector<int32_t> array = {1, 2, 3, 4, 5, 6, 7, 8};
  ReferenceBackend backend(/*num_threads=*/1);

  const absl::Status copied =
      backend.CopyDevice(&array[5], &array[1], 2 * sizeof(int32_t));

  ASSERT_TRUE(copied.ok()) << copied;
  EXPECT_EQ(array, (std::vector<int32_t>{1, 2, 3, 4, 5, 2, 3, 8}));
}

}  // namespace
}  // namespace bole::reference
