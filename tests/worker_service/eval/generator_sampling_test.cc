// What bias and penalties do to a text, with and without speculation.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/sampling_params.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"
#include "tests/worker_service/eval/demo_model.h"
#include "tests/worker_service/eval/dense_runs.h"
#include "worker_service/eval/generator.h"

namespace bole::testing_support {
namespace {

using ::bole::testing::UniformInt;

// Prompts of the tokens that may be drawn, so that it matters who counts them.
std::vector<GenerateRequest> Requests(const SamplingParams& sampling) {
  std::mt19937 rng(1);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 8; ++i) {
    GenerateRequest request{
        .prompt = {}, .sampling = sampling, .stop_tokens = {}};
    for (int j = 0; j < 20; ++j) {
      request.prompt.push_back(UniformInt(rng, 0, kValidTokens - 1));
    }
    request.sampling.max_tokens = 40;
    request.sampling.seed = i;
    requests.push_back(request);
  }
  return requests;
}

SamplingParams Greedy() {
  SamplingParams sampling;
  sampling.temperature = 0;
  return sampling;
}

std::vector<std::vector<int32_t>> Texts(
    const std::vector<GenerateResult>& results) {
  std::vector<std::vector<int32_t>> texts;
  texts.reserve(results.size());
  for (const GenerateResult& result : results) {
    texts.push_back(Tokens(result));
  }
  return texts;
}

// The texts, which are the same whatever is proposed.
std::vector<std::vector<int32_t>> TextsOfEveryShape(
    const SamplingParams& sampling) {
  const std::vector<GenerateRequest> requests = Requests(sampling);
  const std::vector<GenerateResult> plain = RunDense(Off(4), requests);
  const std::vector<GenerateResult> chain = RunDense(Chain(3, 4), requests);
  const std::vector<GenerateResult> tree = RunDense(Tree(15, 4), requests);
  EXPECT_EQ(Texts(chain), Texts(plain));
  EXPECT_EQ(Texts(tree), Texts(plain));
  EXPECT_GT(TotalAccepted(chain), 0);
  EXPECT_GT(TotalAccepted(tree), 0);
  return Texts(plain);
}

TEST(GeneratorSamplingTest, ABiasForcesAndBansTokens) {
  SamplingParams sampling = Greedy();
  sampling.logit_bias = {{5, 100.0f}};
  for (const std::vector<int32_t>& text : TextsOfEveryShape(sampling)) {
    EXPECT_EQ(text, std::vector<int32_t>(40, 5));
  }

  sampling.logit_bias.clear();
  for (const int32_t token : {0, 2, 4, 6}) {
    sampling.logit_bias.emplace_back(token, -100.0f);
  }
  for (const std::vector<int32_t>& text : TextsOfEveryShape(sampling)) {
    for (const int32_t token : text) EXPECT_EQ(token % 2, 1);
  }
}

// Each token is the best of what the model says, less what the output before
// it costs.
void ExpectGreedyUnderPenalties(const GenerateResult& result,
                                const SamplingParams& sampling) {
  std::array<int, kValidTokens> count{};
  for (const EmittedToken& token : result.output) {
    ASSERT_EQ(token.top.size(), count.size());
    std::array<double, kValidTokens> score{};
    for (const TokenLogprob& candidate : token.top) {
      const int times = count[candidate.token];
      score[candidate.token] = candidate.logprob -
                               sampling.frequency_penalty * times -
                               (times > 0 ? sampling.presence_penalty : 0);
    }
    for (const auto& [biased, bias] : sampling.logit_bias) {
      score[biased] += bias;
    }
    // Scores of at most 40 in float, summed in another order.
    EXPECT_GE(score[token.token], *std::ranges::max_element(score) - 1e-4);
    ++count[token.token];
  }
}

TEST(GeneratorSamplingTest, PenaltiesCountTheOutputBeforeATokenInTreesAsWell) {
  SamplingParams sampling = Greedy();
  sampling.presence_penalty = 0.9f;
  sampling.frequency_penalty = 0.3f;
  sampling.logit_bias = {{3, 0.5f}, {6, -0.25f}};
  sampling.logprobs = true;
  sampling.top_logprobs = kValidTokens;
  const std::vector<GenerateRequest> requests = Requests(sampling);
  for (const GenerateOptions& options :
       {Off(4), Chain(3, 4), Tree(15, 4), Tree(63, 4)}) {
    const std::vector<GenerateResult> results = RunDense(options, requests);

    for (const GenerateResult& result : results) {
      ExpectGreedyUnderPenalties(result, sampling);
    }
    EXPECT_EQ(options.draft.has_value(), TotalAccepted(results) > 0);
  }
}

struct Setting {
  std::string name;
  void (*apply)(SamplingParams& sampling);
};

class PenaltyTest : public ::testing::TestWithParam<Setting> {};

TEST_P(PenaltyTest, ChangesTheTextAndSpeculationDoesNot) {
  SamplingParams sampling = Greedy();
  GetParam().apply(sampling);
  SamplingParams bare;
  bare.temperature = sampling.temperature;

  EXPECT_NE(TextsOfEveryShape(sampling), TextsOfEveryShape(bare));
}

INSTANTIATE_TEST_SUITE_P(
    Settings, PenaltyTest,
    ::testing::Values(
        Setting{"presence",
                [](SamplingParams& s) { s.presence_penalty = 1.5f; }},
        Setting{"frequency",
                [](SamplingParams& s) { s.frequency_penalty = 0.8f; }},
        Setting{"repetition",
                [](SamplingParams& s) { s.repetition_penalty = 1.7f; }},
        Setting{"reward",
                [](SamplingParams& s) { s.repetition_penalty = 0.5f; }},
        Setting{"drawn",
                [](SamplingParams& s) {
                  s.temperature = 0.9f;
                  s.top_k = 6;
                  s.top_p = 0.95f;
                  s.min_p = 0.02f;
                  s.presence_penalty = 0.4f;
                  s.frequency_penalty = 0.2f;
                  s.repetition_penalty = 1.2f;
                  s.logit_bias = {{2, 1.0f}, {7, -1.0f}};
                }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace bole::testing_support
