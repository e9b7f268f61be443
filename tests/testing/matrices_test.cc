#include "tests/testing/matrices.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace bole::testing {
namespace {

// Wherever it is: std::max() of a number and NaN depends on the order.
TEST(MatricesTest, AnErrorThatIsNotANumberIsInfinite) {
  EXPECT_EQ(LargerError(1, 2), 2);
  EXPECT_EQ(LargerError(3, 2), 3);
  EXPECT_EQ(LargerError(1, NAN), INFINITY);
  EXPECT_EQ(LargerError(NAN, 1), INFINITY);

  const std::vector<float> want = {1, 2, 3};
  EXPECT_EQ(MaxError(std::vector<float>{1, 2.5f, 3}, want), 0.5);
  for (int i = 0; i < 3; ++i) {
    std::vector<float> got = want;
    got[i] = NAN;
    EXPECT_EQ(MaxError(got, want), INFINITY);
    EXPECT_FALSE(RelativeRmsError(got, want) <= 1e30);
  }
}

}  // namespace
}  // namespace bole::testing
