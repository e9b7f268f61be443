#include "clients/bench/distribution.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace bole::bench {
namespace {

TEST(DistributionTest, APercentileIsTheLeastSampleThatSoManyDoNotExceed) {
  const Distribution five({50, 10, 40, 20, 30});

  EXPECT_EQ(five.Percentile(0), 10);
  EXPECT_EQ(five.Percentile(20), 10);
  EXPECT_EQ(five.Percentile(21), 20);
  EXPECT_EQ(five.Percentile(50), 30);
  EXPECT_EQ(five.Percentile(99), 50);
  EXPECT_EQ(five.max(), 50);
  EXPECT_EQ(five.mean(), 30);
}

TEST(DistributionTest, OfAHundredTheNinetyNinthIsTheNinetyNinth) {
  std::vector<double> samples(100);
  std::iota(samples.begin(), samples.end(), 1);

  EXPECT_EQ(Distribution(samples).Percentile(99), 99);
}

TEST(DistributionTest, WithoutSamplesEverythingIsZero) {
  EXPECT_EQ(Distribution().Percentile(50), 0);
  EXPECT_EQ(Distribution().mean(), 0);
}

}  // namespace
}  // namespace bole::bench
