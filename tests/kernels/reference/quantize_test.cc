#include "kernels/reference/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/int7.h"
#include "kernels/reference/packed_matrix.h"
#include "tests/kernels/reference/host_matrix.h"
#include "tests/testing/matrices.h"

namespace bole::reference {
namespace {

using ::bole::testing::HostMatrix;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::RandomMatrix;
using ::bole::testing::RelativeRmsError;

std::vector<float> RowOf(const PackedMatrix& matrix, int row) {
  std::vector<float> values(matrix.columns);
  matrix.CopyRow(row, values.data());
  return values;
}

float Largest(std::span<const float> row) {
  float largest = 0;
  for (const float w : row) largest = std::max(largest, std::abs(w));
  return largest;
}

// Elements are off by half a step, and by roundings of 63 steps.
void ExpectWithinHalfAStep(const HostMatrix& from, const PackedMatrix& to) {
  for (int r = 0; r < from.rows; ++r) {
    const std::span<const float> want = from.row(r);
    const std::vector<float> got = RowOf(to, r);
    const double step = static_cast<double>(Largest(want)) / kInt7Max;
    for (int c = 0; c < from.columns; ++c) {
      ASSERT_LE(std::abs(static_cast<double>(got[c]) - want[c]),
                step * (0.5 + 4 * kInt7Max * kFloatRoundoff))
          << "row " << r << ", column " << c;
    }
  }
}

TEST(QuantizeTest, ElementsAreOffByHalfAStepAtMost) {
  std::mt19937 rng(1);
  for (const float deviation : {1e-30f, 1e-3f, 1.0f, 1e30f}) {
    const HostMatrix matrix = RandomMatrix(rng, 33, 257, deviation);
    const auto quantized = Quantized(*matrix.packed);
    ASSERT_TRUE(quantized.ok()) << quantized.status();
    ExpectWithinHalfAStep(matrix, **quantized);
  }
}

// A step is largest / 63, and its rounding errors are spread evenly: with the
// largest of 4096 normal numbers near 3.7, that is 1.7 % of their size.
TEST(QuantizeTest, ANormalRowLosesTwoPercent) {
  std::mt19937 rng(2);
  const HostMatrix matrix = RandomMatrix(rng, 16, 4096);
  const auto quantized = Quantized(*matrix.packed);
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  std::vector<float> got;
  for (int r = 0; r < matrix.rows; ++r) {
    const std::vector<float> row = RowOf(**quantized, r);
    got.insert(got.end(), row.begin(), row.end());
  }
  const double error = RelativeRmsError(got, matrix.values);
  EXPECT_GT(error, 0.013);
  EXPECT_LT(error, 0.022);
}

TEST(QuantizeTest, MultiplesOfTheScaleStayWhatTheyAre) {
  std::vector<float> values;
  for (int q = -kInt7Max; q <= kInt7Max; ++q) {
    values.push_back(0.25f * static_cast<float>(q));
  }
  const HostMatrix matrix(1, static_cast<int>(values.size()), values);
  const auto quantized = Quantized(*matrix.packed);
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  EXPECT_EQ(RowOf(**quantized, 0), values);
}

TEST(QuantizeTest, ScalesAreThoseOfTheRow) {
  const HostMatrix matrix(3, 2, {63, 1, 0.63f, 0.01f, 6300, 100});
  const auto quantized = Quantized(*matrix.packed);
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  ExpectWithinHalfAStep(matrix, **quantized);
  EXPECT_EQ(RowOf(**quantized, 0), (std::vector<float>{63, 1}));
  EXPECT_EQ(RowOf(**quantized, 2), (std::vector<float>{6300, 100}));
}

TEST(QuantizeTest, RowsOfNothingAndOfTheSmallestNumbersAreZero) {
  const float least = std::numeric_limits<float>::denorm_min();
  const HostMatrix matrix(3, 2, {0, 0, least, -100 * least, 9e-37f, 1e-40f});
  const auto quantized = Quantized(*matrix.packed);
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(RowOf(**quantized, r), (std::vector<float>{0, 0})) << r;
  }
}

TEST(QuantizeTest, TheLargestNumbersStayFinite) {
  const float most = std::numeric_limits<float>::max();
  const HostMatrix matrix(1, 3, {most, -most, most / 63});
  const auto quantized = Quantized(*matrix.packed);
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  ExpectWithinHalfAStep(matrix, **quantized);
}

TEST(QuantizeTest, WhatIsNotFiniteIsRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const HostMatrix matrix(2, 2, {1, 2, 3, bad});
    EXPECT_EQ(Quantized(*matrix.packed).status(),
              absl::InvalidArgumentError("row 1 of a matrix of 2 by 2 has an "
                                         "element that is not finite"));
  }
}

}  // namespace
}  // namespace bole::reference
