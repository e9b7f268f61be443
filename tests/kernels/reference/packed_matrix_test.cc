// On every instruction set of the machine.
#include "kernels/reference/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::FillNormal;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::NormalVector;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

class MultiplyTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  std::mt19937 rng_{1};
};

// A product whose `out` has room for a row more than there is, all NaN but for
// what is accumulated into.
struct Problem {
  Problem(std::mt19937& rng, int rows, int columns, int num_rows)
      : values(NormalVector(rng, static_cast<size_t>(rows) * columns)),
        weight(PackedMatrix::Create(rows, columns)),
        x(static_cast<size_t>(num_rows) * columns),
        start(static_cast<size_t>(num_rows) * rows),
        out(start.size() + rows) {
    weight->SetRows(0, values);
    FillNormal(rng, 1, x.span(0, x.size()));
    FillNormal(rng, 3, start.span(0, start.size()));
  }

  void Run(bool accumulate, ThreadPool& pool) {
    out = GuardedBuffer<float>(out.size());
    if (accumulate) std::ranges::copy(start.all(), out.data());
    const int num_rows = static_cast<int>(x.size()) / weight->columns;
    Multiply({.weight = weight.get(),
              .x = x.data(),
              .out = out.data(),
              .num_rows = num_rows,
              .accumulate = accumulate},
             pool);
  }

  std::vector<float> values;  // [rows, columns]
  std::unique_ptr<PackedMatrix> weight;
  GuardedBuffer<float> x, start, out;
};

// x_i . w_o in double, and what it may be off by in float.
struct Want {
  double value;
  double tolerance;
};

Want ExactDot(const Problem& p, size_t i, size_t o) {
  const int columns = p.weight->columns;
  double sum = 0;
  double magnitude = 0;
  for (int c = 0; c < columns; ++c) {
    const double term =
        static_cast<double>(p.x[i * columns + c]) * p.values[o * columns + c];
    sum += term;
    magnitude += std::abs(term);
  }
  // A chain of `columns` additions rounds each term at most columns + 1 times,
  // its product included.
  return {sum, (columns + 1) * kFloatRoundoff * magnitude};
}

void ExpectIsTheProduct(const Problem& p) {
  const size_t rows = p.weight->rows;
  for (size_t i = 0; i < p.start.size(); ++i) {
    const Want want = ExactDot(p, i / rows, i % rows);
    ASSERT_NEAR(p.out[i], want.value, want.tolerance) << i;
  }
  for (size_t i = p.start.size(); i < p.out.size(); ++i) {
    ASSERT_TRUE(std::isnan(p.out[i])) << i;
  }
  EXPECT_TRUE(p.out.GuardsIntact());
}

TEST_P(MultiplyTest, IsTheProductAtOddSizes) {
  ThreadPool pool(2);
  for (const int rows : {1, 31, 32, 33, 200}) {
    for (const int columns : {1, 7, 256, 1000}) {
      for (const int num_rows : {0, 1, 14}) {
        SCOPED_TRACE(::testing::Message()
                     << num_rows << " x " << rows << " x " << columns);
        Problem p(rng_, rows, columns, num_rows);

        p.Run(/*accumulate=*/false, pool);

        ExpectIsTheProduct(p);
      }
    }
  }
}

TEST_P(MultiplyTest, AccumulatingAddsTheWholeProductAtOnce) {
  ThreadPool pool(2);
  for (const int rows : {1, 33, 200}) {
    for (const int num_rows : {1, 14}) {
      Problem p(rng_, rows, 65, num_rows);

      p.Run(/*accumulate=*/false, pool);
      const GuardedBuffer<float> product = p.out;
      p.Run(/*accumulate=*/true, pool);

      for (size_t i = 0; i < p.start.size(); ++i) {
        ASSERT_EQ(p.out[i], p.start[i] + product[i]) << i;
      }
      EXPECT_TRUE(p.out.GuardsIntact());
    }
  }
}

// Enough panels that a thread gets several at once, and not all alike.
constexpr int kWeightRows = 14 * PackedMatrix::kPanelRows - 5;
constexpr int kMaxRows = 260;

// The batch of rows first .. first + num_rows - 1 has the bits in `alone`
// [., kWeightRows].
void ExpectBitsOf(const std::vector<float>& alone, const Problem& p, int first,
                  int num_rows, ThreadPool& pool) {
  const size_t size = static_cast<size_t>(num_rows) * kWeightRows;
  std::vector<float> out(size);

  Multiply({.weight = p.weight.get(),
            .x = &p.x[static_cast<size_t>(first) * p.weight->columns],
            .out = out.data(),
            .num_rows = num_rows,
            .accumulate = false},
           pool);

  EXPECT_TRUE(SameBits(
      out,
      std::span(alone).subspan(static_cast<size_t>(first) * kWeightRows, size)))
      << num_rows << " rows on " << pool.num_threads() << " threads";
}

TEST_P(MultiplyTest, ARowHasTheBitsItHasAloneInABatchOfAnySizeAtAnyPlace) {
  ThreadPool one_thread(1);
  Problem p(rng_, kWeightRows, 9, 2 * kMaxRows);
  std::vector<float> alone(2 * kMaxRows * kWeightRows);
  for (int row = 0; row < 2 * kMaxRows; ++row) {
    Multiply({.weight = p.weight.get(),
              .x = &p.x[static_cast<size_t>(row) * p.weight->columns],
              .out = &alone[static_cast<size_t>(row) * kWeightRows],
              .num_rows = 1,
              .accumulate = false},
             one_thread);
  }

  for (const int num_threads : {1, 2, 3}) {
    ThreadPool pool(num_threads);
    for (int num_rows = 1; num_rows <= kMaxRows; ++num_rows) {
      ExpectBitsOf(alone, p, UniformInt(rng_, 0, kMaxRows), num_rows, pool);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Targets, MultiplyTest,
    ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
    [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

std::vector<float> Rows(const PackedMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows) * matrix.columns);
  for (int row = 0; row < matrix.rows; ++row) {
    matrix.CopyRow(row, &values[static_cast<size_t>(row) * matrix.columns]);
  }
  return values;
}

TEST(PackedMatrixTest, IsZeroUntilItsRowsAreSet) {
  const std::unique_ptr<PackedMatrix> matrix = PackedMatrix::Create(33, 5);

  EXPECT_EQ(Rows(*matrix), std::vector<float>(33 * 5));
}

TEST(PackedMatrixTest, GivesBackTheRowsThatItWasSetToBlockByBlock) {
  std::mt19937 rng(1);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    const int rows = UniformInt(rng, 1, 100);
    const int columns = UniformInt(rng, 1, 40);
    const std::vector<float> values =
        NormalVector(rng, static_cast<size_t>(rows) * columns);
    const std::unique_ptr<PackedMatrix> matrix =
        PackedMatrix::Create(rows, columns);

    for (int row = 0; row < rows;) {
      const int count = UniformInt(rng, 0, rows - row);
      matrix->SetRows(
          row, std::span(values).subspan(static_cast<size_t>(row) * columns,
                                         static_cast<size_t>(count) * columns));
      row += count;
    }

    EXPECT_EQ(Rows(*matrix), values);
  }
}

TEST(PackedMatrixTest, SettingARowLeavesTheOthers) {
  std::mt19937 rng(2);
  constexpr int kColumns = 3;
  std::vector<float> values = NormalVector(rng, 70 * kColumns);
  const std::unique_ptr<PackedMatrix> matrix =
      PackedMatrix::Create(70, kColumns);
  matrix->SetRows(0, values);

  for (const int row : {0, 31, 32, 69}) {
    const std::vector<float> changed = NormalVector(rng, kColumns);
    matrix->SetRows(row, changed);
    std::ranges::copy(changed, values.begin() + row * kColumns);
  }

  EXPECT_EQ(Rows(*matrix), values);
}

TEST(PackedMatrixTest, PadsTheLastPanelWithZeros) {
  const std::unique_ptr<PackedMatrix> matrix = PackedMatrix::Create(33, 2);
  matrix->SetRows(0, std::vector<float>(33 * 2, 1.0f));

  const float* panel = matrix->panel(1);

  ASSERT_EQ(matrix->num_panels(), 2);
  for (int i = 0; i < 2 * PackedMatrix::kPanelRows; ++i) {
    EXPECT_EQ(panel[i], i % PackedMatrix::kPanelRows == 0 ? 1.0f : 0.0f) << i;
  }
}

}  // namespace
}  // namespace bole::reference
