// A worker whose model is cut into ranks writes what one with the whole model
// writes, through both services.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/speculation.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"
#include "worker_service/ranks/ranked_model_options.h"

namespace bole::e2e {
namespace {

constexpr int kMaxTokens = 40;
constexpr int kRequests = 6;

// Greedy ones and drawn ones, with penalties and without.
v1::GenerateRequest RequestFor(int i) {
  v1::GenerateRequest request = GreedyRequest(
      "def f" + std::to_string(i) + "(a, b):\n    return", kMaxTokens);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  sampling.set_seed(i);
  sampling.set_logprobs(0);  // No alternatives are reported.
  if (i % 2 == 1) sampling.set_temperature(0.8f);
  if (i % 3 == 2) sampling.set_presence_penalty(0.6f);
  return request;
}

// What came of a request, to the bit.
struct Answer {
  std::vector<int32_t> ids;
  std::string text;
  std::vector<float> logprobs;

  friend bool operator==(const Answer&, const Answer&) = default;
};

// Sent at once.
std::vector<Answer> AnswersWith(SystemOptions options, int num_ranks,
                                SpeculationMode mode) {
  options.num_ranks = num_ranks;
  options.scheduler.policy =
      mode == SpeculationMode::kOff ? PolicyKind::kOff : PolicyKind::kFixed;
  options.scheduler.speculation.mode = mode;
  System system(options);
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    calls.push_back(std::make_unique<Call>(system.stub(), RequestFor(i)));
  }
  std::vector<Answer> answers;
  for (const auto& call : calls) {
    const Generation& generation = call->Finish();
    EXPECT_TRUE(generation.status.ok()) << generation.status.error_message();
    EXPECT_EQ(generation.ids().size(), kMaxTokens);
    answers.push_back(
        {.ids = generation.ids(), .text = generation.text(), .logprobs = {}});
    for (const v1::TokenLogprob& token : generation.logprobs()) {
      answers.back().logprobs.push_back(token.logprob());
    }
    EXPECT_EQ(answers.back().logprobs.size(), kMaxTokens);
  }
  calls.clear();
  system.ExpectIdle();
  return answers;
}

std::vector<std::vector<int32_t>> IdsWith(const SystemOptions& options,
                                          int num_ranks, SpeculationMode mode) {
  std::vector<std::vector<int32_t>> ids;
  for (const Answer& answer : AnswersWith(options, num_ranks, mode)) {
    ids.push_back(answer.ids);
  }
  return ids;
}

TEST(E2eRanksTest, TwoRanksWriteTheDemoModelsTexts) {
  const SystemOptions options;
  const auto want = IdsWith(options, 1, SpeculationMode::kOff);
  for (const SpeculationMode mode :
       {SpeculationMode::kOff, SpeculationMode::kTree}) {
    SCOPED_TRACE(static_cast<int>(mode));
    EXPECT_EQ(IdsWith(options, 2, mode), want);
  }
}

// Sixteen key heads, and experts of which four ranks have a quarter each.
TEST(E2eRanksTest, FourRanksWriteASyntheticModelsTexts) {
  for (const std::string size : {"tiny-16", "tiny-16-moe"}) {
    SCOPED_TRACE(size);
    SystemOptions options;
    options.model_directory = "synthetic:" + size;
    options.scheduler_model = options.model_directory + "=models/demo";
    const auto want = IdsWith(options, 1, SpeculationMode::kTree);
    EXPECT_EQ(IdsWith(options, 2, SpeculationMode::kChain), want);
    EXPECT_EQ(IdsWith(options, 4, SpeculationMode::kTree), want);
  }
}

TEST(E2eRanksTest, ProcessesAnswerAsThreadsDoBitForBit) {
  for (const int num_ranks : {2, 4}) {
    SCOPED_TRACE(num_ranks);
    SystemOptions options;
    if (num_ranks == 4) {  // The demo model cannot be cut so.
      options.model_directory = "synthetic:tiny-16-moe";
      options.scheduler_model = options.model_directory + "=models/demo";
    }
    const auto want = AnswersWith(options, num_ranks, SpeculationMode::kTree);
    options.rank_kind = RankKind::kProcesses;
    EXPECT_EQ(AnswersWith(options, num_ranks, SpeculationMode::kTree), want);
  }
}

}  // namespace
}  // namespace bole::e2e
