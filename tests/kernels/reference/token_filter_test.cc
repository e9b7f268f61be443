#include "kernels/reference/token_filter.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/kernels/reference/sample_oracle.h"

namespace bole::reference {
namespace {

using ::bole::testing::PlainControl;

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

std::vector<int32_t> Kept(const std::vector<float>& logits,
                          const SamplingControl& control) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<int32_t> tokens;
  for (const TokenLogit& t : FilterTokens(logits, max, control)) {
    tokens.push_back(t.token);
  }
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

SamplingControl RandomFilters(std::mt19937& rng) {
  std::uniform_real_distribution<float> uniform(0.01f, 1.0f);
  std::bernoulli_distribution coin;
  SamplingControl control = PlainControl(0);
  control.temperature = coin(rng) ? 1.0f : 3 * uniform(rng);
  if (coin(rng)) control.top_k = static_cast<int>(rng() % 40);
  if (coin(rng)) control.top_p = uniform(rng);
  if (coin(rng)) control.min_p = uniform(rng) * uniform(rng);
  return control;
}

// Half of the rounds have logits in steps of a quarter, so that ties are
// common.
std::vector<float> RandomLogits(std::mt19937& rng, int vocabulary) {
  std::normal_distribution<float> normal(0, 2);
  const bool coarse = rng() % 2 == 0;
  std::vector<float> logits;
  for (int v = 0; v < vocabulary; ++v) {
    const float z = normal(rng);
    logits.push_back(coarse ? std::round(4 * z) / 4 : z);
    if (rng() % 20 == 0) logits.back() = kImpossible;
  }
  logits[rng() % vocabulary] = 1;  // One at least is possible.
  return logits;
}

TEST(TokenFilterTest, KeepsWhatTheDefinitionKeeps) {
  std::mt19937 rng(1);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    const std::vector<float> logits =
        RandomLogits(rng, 1 + static_cast<int>(rng() % 60));
    const SamplingControl control = RandomFilters(rng);

    const std::vector<int32_t> kept = Kept(logits, control);

    const std::vector<double> distribution = testing::FilteredDistribution(
        std::vector<double>(logits.begin(), logits.end()), control);
    std::vector<int32_t> want;
    for (int32_t v = 0; v < std::ssize(logits); ++v) {
      if (distribution[v] > 0) want.push_back(v);
    }
    EXPECT_EQ(kept, want);
  }
}

TEST(TokenFilterTest, TokensTiedWithTheKthStay) {
  SamplingControl control = PlainControl(0);
  control.top_k = 2;

  EXPECT_EQ(Kept({1, 3, 2, 2, 2, 0}, control),
            (std::vector<int32_t>{1, 2, 3, 4}));
}

TEST(TokenFilterTest, AKAtOrAboveTheVocabularyKeepsAll) {
  SamplingControl control = PlainControl(0);
  for (const int k : {3, 4, std::numeric_limits<int32_t>::max()}) {
    control.top_k = k;

    EXPECT_EQ(Kept({1, 3, 2}, control), (std::vector<int32_t>{0, 1, 2})) << k;
  }
}

TEST(TokenFilterTest, TopPTakesTheLowerIdsOfEquals) {
  SamplingControl control = PlainControl(0);
  control.top_p = 0.5f;  // Exactly two of four equals, whose weights are 1.

  EXPECT_EQ(Kept({2, 2, 2, 2}, control), (std::vector<int32_t>{0, 1}));

  control.top_p = 0.5f + 1e-6f;
  EXPECT_EQ(Kept({2, 2, 2, 2}, control), (std::vector<int32_t>{0, 1, 2}));
}

TEST(TokenFilterTest, TheSmallestPKeepsOneToken) {
  SamplingControl control = PlainControl(0);
  control.top_p = std::numeric_limits<float>::denorm_min();

  EXPECT_EQ(Kept({1, 3, 3, 2}, control), (std::vector<int32_t>{1}));
}

// p counts what top-k left: of the two best, equal ones, the first has half.
TEST(TokenFilterTest, TopPIsOverWhatTopKLeft) {
  SamplingControl control = PlainControl(0);
  control.top_p = 0.45f;
  const std::vector<float> logits = {0, 0, 0, 1, 1, 0};
  ASSERT_EQ(Kept(logits, control), (std::vector<int32_t>{3, 4}));

  control.top_k = 2;

  EXPECT_EQ(Kept(logits, control), (std::vector<int32_t>{3}));
}

TEST(TokenFilterTest, MinPIsRelativeToTheLikeliest) {
  SamplingControl control = PlainControl(0);
  control.min_p = 0.5f;
  const std::vector<float> logits = {0, 0.7f, 0.6f, 1.3f};

  EXPECT_EQ(Kept(logits, control), (std::vector<int32_t>{1, 3}));

  control.min_p = 1.0f;
  EXPECT_EQ(Kept(logits, control), (std::vector<int32_t>{3}));
}

TEST(TokenFilterTest, TheHighestLogitStaysAtAnyTemperature) {
  SamplingControl control = PlainControl(0);
  control.top_p = 0.9f;
  control.min_p = 0.1f;
  for (const float temperature : {1e-38f, 1e-3f, 100.0f}) {
    control.temperature = temperature;

    const std::vector<int32_t> kept = Kept({-3e38f, 1, 3e38f, 2}, control);

    EXPECT_EQ(kept, (std::vector<int32_t>{2})) << temperature;
  }
}

}  // namespace
}  // namespace bole::reference
