// Draws follow the filtered distribution, with and without speculation.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/reference/markov_decoder.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/kernels/reference/sample_oracle.h"

namespace bole::testing {
namespace {

constexpr int kDraws = 100000;
constexpr int kBatch = 500;

struct ChiSquare {
  double statistic;
  double limit;
};

// Pearson's statistic, cells with less than 5 expected taken together. A right
// sampler exceeds the limit for one seed in 100,000 (4.265 standard deviations
// by the Wilson-Hilferty approximation); the seeds here are fixed. A draw of
// probability 0 is infinitely wrong.
ChiSquare Compare(const std::vector<double>& probability,
                  const std::vector<int>& count, int num_draws) {
  double statistic = 0;
  double rare_expected = 0;
  double rare_count = 0;
  int cells = 0;
  const auto add = [&](double expected, double observed) {
    statistic += (observed - expected) * (observed - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < probability.size(); ++i) {
    if (probability[i] == 0 && count[i] > 0) return {INFINITY, 0};
    const double expected = probability[i] * num_draws;
    if (expected >= 5) {
      add(expected, count[i]);
    } else {
      rare_expected += expected;
      rare_count += count[i];
    }
  }
  if (rare_expected >= 1) add(rare_expected, rare_count);
  const double df = std::max(cells - 1, 1);
  const double root = 1 - 2 / (9 * df) + 4.265 * std::sqrt(2 / (9 * df));
  return {statistic, df * root * root * root};
}

struct FilterCase {
  std::string name;
  SamplingControl control;
  std::vector<std::pair<int32_t, float>> bias;
};

std::vector<FilterCase> FilterCases() {
  const SamplingControl plain = PlainControl(0);
  std::vector<FilterCase> cases(9, {"", plain, {}});
  cases[0].name = "plain";
  cases[1].name = "cold";
  cases[1].control.temperature = 0.6f;
  cases[2].name = "hot";
  cases[2].control.temperature = 1.7f;
  cases[3].name = "top-k";
  cases[3].control.top_k = 3;
  cases[4].name = "top-p";
  cases[4].control.top_p = 0.8f;
  cases[5].name = "min-p";
  cases[5].control.min_p = 0.2f;
  cases[6].name = "bias";
  cases[6].bias = {{0, 1.0f}, {4, -3.0f}};
  cases[7].name = "penalties";
  cases[7].control.presence_penalty = 0.5f;
  cases[7].control.repetition_penalty = 1.5f;
  cases[8] = {"all", plain, {{2, 0.5f}}};
  cases[8].control.temperature = 0.8f;
  cases[8].control.top_k = 5;
  cases[8].control.top_p = 0.9f;
  cases[8].control.min_p = 0.05f;
  cases[8].control.frequency_penalty = 0.3f;
  return cases;
}

std::vector<float> Logits() {
  return {1.0f, 0.2f, -0.5f, 2.0f, 0.2f, -3.0f, 0.9f, -1.0f};
}
constexpr int kVocabulary = 8;
constexpr int32_t kRoot = 3;  // The likeliest, so that penalties matter.

enum class Vary { kSeed, kPosition };

std::vector<int> CountDraws(const FilterCase& filter, Vary vary) {
  std::vector<int> count(kVocabulary);
  std::vector<int32_t> history(kVocabulary);
  std::vector<SampledRequest> requests(kBatch, {.nodes = {{kRoot}, {-1}},
                                                .logits = {Logits()},
                                                .control = filter.control,
                                                .bias = filter.bias,
                                                .stop = {}});
  for (int draw = 0; draw < kDraws;) {
    for (SampledRequest& request : requests) {
      request.control.seed = vary == Vary::kSeed ? draw : 1;
      request.committed = vary == Vary::kPosition ? draw + 1 : 1;
      ++draw;
    }
    for (const SampledPath& path :
         SampleBatch(requests, kVocabulary, kVocabulary, history).Run()) {
      ++count[path.next_token];
    }
  }
  return count;
}

std::vector<double> ExactDistribution(const FilterCase& filter) {
  return FilteredDistribution(
      AdjustedLogits(Logits(), filter.control, filter.bias, {kRoot}),
      filter.control);
}

TEST(SampleDistributionTest, SingleDrawsFollowEveryFilter) {
  for (const FilterCase& filter : FilterCases()) {
    SCOPED_TRACE(filter.name);

    const std::vector<int> count = CountDraws(filter, Vary::kSeed);

    const ChiSquare chi = Compare(ExactDistribution(filter), count, kDraws);
    EXPECT_LT(chi.statistic, chi.limit);
  }
}

TEST(SampleDistributionTest, PositionsOfOneSeedAreAsIndependentAsSeeds) {
  const FilterCase filter = FilterCases()[0];

  const std::vector<int> count = CountDraws(filter, Vary::kPosition);

  const ChiSquare chi = Compare(ExactDistribution(filter), count, kDraws);
  EXPECT_LT(chi.statistic, chi.limit);
}

TEST(SampleDistributionTest, TheComparisonSeesATemperatureFivePercentOff) {
  FilterCase filter = FilterCases()[0];
  const std::vector<int> count = CountDraws(filter, Vary::kSeed);

  filter.control.temperature = 1.05f;

  const ChiSquare chi = Compare(ExactDistribution(filter), count, kDraws);
  EXPECT_GT(chi.statistic, chi.limit);
}

constexpr int kSteps = 3;
constexpr int32_t kFirst = 1;

// The probability of every text of kSteps tokens, as a number in base V.
std::vector<double> TextDistribution(const MarkovTarget& target,
                                     const SamplingControl& control) {
  std::vector<double> probability = {1};
  std::vector<std::vector<int32_t>> texts = {{kFirst}};
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> longer_probability;
    std::vector<std::vector<int32_t>> longer_texts;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<double> next = FilteredDistribution(
          AdjustedLogits(target.LogitsAfter(texts[i]), control, {}, texts[i]),
          control);
      for (int32_t v = 0; v < target.vocabulary(); ++v) {
        longer_probability.push_back(probability[i] * next[v]);
        longer_texts.push_back(texts[i]);
        longer_texts.back().push_back(v);
      }
    }
    probability = longer_probability;
    texts = longer_texts;
  }
  return probability;
}

std::vector<int> CountTexts(const MarkovTarget& target,
                            const SamplingControl& control, Drafts drafts) {
  std::vector<int> count(TextDistribution(target, control).size());
  std::vector<SamplingControl> controls(kBatch, control);
  for (int draw = 0; draw < kDraws;) {
    for (SamplingControl& c : controls) c.seed = draw++;
    for (const DecodedText& text :
         Decode(target, drafts, kFirst, kSteps, controls)) {
      int index = 0;
      for (const int32_t token : text.tokens) {
        index = index * target.vocabulary() + token;
      }
      ++count[index];
    }
  }
  return count;
}

// The joint distribution of three tokens, each drawn given those before.
TEST(SampleDistributionTest, TextsFollowTheTargetWhateverIsDrafted) {
  const MarkovTarget target(/*vocabulary=*/5, /*seed=*/4);
  SamplingControl control = PlainControl(0);
  control.temperature = 0.9f;
  control.top_p = 0.97f;
  control.presence_penalty = 0.5f;
  control.prompt_length = 1;
  const std::vector<double> exact = TextDistribution(target, control);

  const std::vector<int> plain = CountTexts(target, control, Drafts::kNone);
  const std::vector<int> chain = CountTexts(target, control, Drafts::kChain);
  const std::vector<int> tree = CountTexts(target, control, Drafts::kTree);

  const ChiSquare chi = Compare(exact, plain, kDraws);
  EXPECT_LT(chi.statistic, chi.limit);
  // The same texts for the same seeds, so the same statistic.
  EXPECT_EQ(chain, plain);
  EXPECT_EQ(tree, plain);
}

}  // namespace
}  // namespace bole::testing
