// Rows for operators to read and write, with spare ones that they must leave
// alone.
#ifndef BOLE_TESTS_KERNELS_REFERENCE_SPARE_ROWS_H_
#define BOLE_TESTS_KERNELS_REFERENCE_SPARE_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>

#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::testing {

inline constexpr int kSpareRows = 2;
inline RowCount Count(const int32_t& num_rows) {
  return {.count = &num_rows, .max = num_rows + kSpareRows};
}

// Rows to read: random, then spare ones of NaN.
inline GuardedBuffer<float> RandomRows(std::mt19937& rng, int num_rows,
                                       int width, float deviation = 1) {
  GuardedBuffer<float> x(static_cast<size_t>(num_rows + kSpareRows) * width);
  FillNormal(rng, deviation, x.span(0, static_cast<size_t>(num_rows) * width));
  return x;
}

// Rows to write, with spare ones. Not NaN, which is what an operator that reads
// too far would write.
inline constexpr float kUntouched = -7777;
inline GuardedBuffer<float> Rows(int num_rows, int width) {
  GuardedBuffer<float> out(static_cast<size_t>(num_rows + kSpareRows) * width);
  std::ranges::fill(out.span(0, out.size()), kUntouched);
  return out;
}

inline void ExpectNothingWrittenFrom(size_t first,
                                     const GuardedBuffer<float>& out) {
  for (const float x : out.span(first, out.size() - first)) {
    EXPECT_EQ(x, kUntouched);
  }
  EXPECT_TRUE(out.GuardsIntact());
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_REFERENCE_SPARE_ROWS_H_
