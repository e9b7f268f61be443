#include "common/chart.h"

#include <gtest/gtest.h>

#include <vector>

namespace bole {
namespace {

TEST(ChartTest, TicksAreRoundAndWithinTheRange) {
  EXPECT_EQ(RoundTicks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(RoundTicks(0, 99, 5), (std::vector<double>{0, 20, 40, 60, 80}));
  EXPECT_EQ(RoundTicks(12, 41, 3), (std::vector<double>{20, 30, 40}));
  EXPECT_EQ(RoundTicks(3, 3, 5), (std::vector<double>{3}));
}

}  // namespace
}  // namespace bole
