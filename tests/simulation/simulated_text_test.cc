#include "tests/simulation/simulated_text.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace bole::simulation {
namespace {

TextOptions Text() {
  TextOptions text;
  for (int32_t token = 100; token < 200; ++token) {
    text.alphabet.push_back(token);
  }
  text.stop_tokens = {7};
  return text;
}

const std::vector<int32_t>& Prompt() {
  static const auto& prompt = *new std::vector<int32_t>{3, 1, 4, 1, 5};
  return prompt;
}

std::vector<int32_t> TextWith(const SamplingParams& sampling) {
  return ExpectedOutput(Text(), Prompt(), sampling, 30);
}

TEST(ExpectedOutputTest, TheSameRequestHasTheSameText) {
  SamplingParams sampling;
  EXPECT_EQ(TextWith(sampling), TextWith(sampling));
  EXPECT_EQ(TextWith(sampling).size(), 30u);
  // What a client may ask for besides does not matter.
  SamplingParams other = sampling;
  other.logprobs = true;
  other.top_logprobs = 5;
  other.max_tokens = 9;
  other.ignore_eos = true;
  EXPECT_EQ(TextWith(sampling), TextWith(other));
}

TEST(ExpectedOutputTest, PromptAndModelSeedMatter) {
  const SamplingParams sampling;
  TextOptions other = Text();
  other.seed = 1;
  std::vector<int32_t> turned = Prompt();
  std::swap(turned[0], turned[1]);

  const std::vector<int32_t> text = TextWith(sampling);
  EXPECT_NE(text, ExpectedOutput(other, Prompt(), sampling, 30));
  EXPECT_NE(text, ExpectedOutput(Text(), turned, sampling, 30));
}

TEST(ExpectedOutputTest, GreedyTextIgnoresTheSeedAndTheFilters) {
  SamplingParams greedy;
  greedy.temperature = 0;
  SamplingParams seeded = greedy;
  seeded.seed = 5;
  seeded.top_k = 3;
  EXPECT_EQ(TextWith(greedy), TextWith(seeded));
  seeded.temperature = 1;
  EXPECT_NE(TextWith(greedy), TextWith(seeded));
}

TEST(ExpectedOutputTest, BiasesHaveNoOrder) {
  SamplingParams one;
  one.logit_bias = {{4, 1.0f}, {9, -2.0f}};
  SamplingParams other;
  other.logit_bias = {{9, -2.0f}, {4, 1.0f}};
  EXPECT_EQ(TextWith(one), TextWith(other));
  other.logit_bias[0].second = 2.0f;
  EXPECT_NE(TextWith(one), TextWith(other));
}

TEST(ExpectedOutputTest, EndsWithAStopToken) {
  const std::vector<int32_t> text = TextWith({});
  const int32_t stops[] = {text[11]};
  const auto first = std::find(text.begin(), text.end(), text[11]);

  EXPECT_EQ(ExpectedOutput(Text(), Prompt(), {}, 30, stops),
            std::vector<int32_t>(text.begin(), first + 1));
}

TEST(ExpectedOutputTest, TheWholeAlphabetIsUsedAndStopsAsOftenAsStated) {
  TextOptions text = Text();
  text.stop_probability = 0.1;

  const std::vector<int32_t> output = ExpectedOutput(text, Prompt(), {}, 20000);

  const std::set<int32_t> used(output.begin(), output.end());
  EXPECT_EQ(used.size(), 101u);
  // Six standard deviations of a binomial count.
  EXPECT_NEAR(std::count(output.begin(), output.end(), 7), 2000, 255);
  EXPECT_EQ(*used.rbegin(), 199);
}

TEST(HistoryTest, RowsDependOnAllBeforeThem) {
  History first = Append({}, 1, 9);
  History second = Append({}, 2, 9);
  EXPECT_NE(RowOf(first, 5), RowOf(second, 5));
  EXPECT_NE(Append(first, 5, 9).rows, Append(second, 5, 9).rows);
  EXPECT_EQ(Append(first, 5, 9).length, 2);
}

}  // namespace
}  // namespace bole::simulation
