#include "common/gumbel.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

// u and the noise at both ends of the bits: never 0, 1 or infinite.
static_assert(UniformFromBits(0) == 0x1p-33f);
static_assert(UniformFromBits(~uint32_t{0}) == 1.0f - 0x1p-24f);

TEST(GumbelTest, NoiseIsFiniteAndFallsAsTheBitsGrow) {
  const std::vector<uint32_t> bits = {0,        1,          1000,
                                      1u << 31, 0xFFFFFF00, 0xFFFFFFFF};
  std::vector<float> noise(bits.size());
  std::transform(bits.begin(), bits.end(), noise.begin(), GumbelFromBits);

  EXPECT_TRUE(std::is_sorted(noise.rbegin(), noise.rend()));
  EXPECT_LT(noise.front(), 23.0f);
  EXPECT_GT(noise.back(), -3.0f);
}

// The largest deviation of the empirical distribution from exp(-exp(-x)).
TEST(GumbelTest, NoiseFollowsTheGumbelDistribution) {
  constexpr int kDraws = 100000;
  std::vector<double> noise(kDraws);
  for (int i = 0; i < kDraws; ++i) {
    noise[i] = GumbelNoise(/*seed=*/42, /*position=*/i / 100, i % 100);
  }
  std::sort(noise.begin(), noise.end());

  double deviation = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double cdf = std::exp(-std::exp(-noise[i]));
    deviation = std::max({deviation, std::abs(cdf - i * 1.0 / kDraws),
                          std::abs(cdf - (i + 1.0) / kDraws)});
  }

  // Kolmogorov and Smirnov: above 1.95 / sqrt(n) once in a thousand seeds.
  EXPECT_LT(deviation, 1.95 / std::sqrt(kDraws));
}

TEST(GumbelTest, SeedPositionAndTokenEachChangeTheNoise) {
  const uint64_t high = uint64_t{1} << 32;
  const std::set<float> noise = {
      GumbelNoise(1, 2, 3),        GumbelNoise(2, 2, 3),
      GumbelNoise(1 + high, 2, 3), GumbelNoise(1, 3, 3),
      GumbelNoise(1, 2 + high, 3), GumbelNoise(1, 2, 4),
      GumbelNoise(1, 2, 7),        GumbelNoise(1, 2, 248319)};

  EXPECT_EQ(noise.size(), 8u);
}

TEST(GumbelTest, OneBlockHoldsTheBitsOfFourTokens) {
  for (int token = 0; token < 40; ++token) {
    const PhiloxCounter bits =
        NoiseBits(/*seed=*/9, /*position=*/77, token / kNoiseBlock);

    EXPECT_EQ(GumbelNoise(9, 77, token),
              GumbelFromBits(bits.word[token % kNoiseBlock]));
  }
}

// Texts must stay what they were for a seed, across versions and machines: a
// change of these bits is a change of every sampled text.
TEST(GumbelTest, TheBitsOfASeedNeverChange) {
  const PhiloxCounter bits = NoiseBits(
      /*seed=*/0x299f31d0a4093822, /*position=*/0x13198a2e85a308d3,
      /*block=*/0x243f6a88);
  const PhiloxCounter want = Philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0}},
                                    {{0xa4093822, 0x299f31d0}});

  for (int i = 0; i < 4; ++i) EXPECT_EQ(bits.word[i], want.word[i]);
}

}  // namespace
}  // namespace bole
