// Log probabilities of the prompt in a result.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/packed_forest.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "scheduler_service/replicas/validate_result.h"

namespace bole {
namespace {

constexpr StepLimits kLimits = {.max_requests = 4,
                                .max_nodes = 32,
                                .max_nodes_per_tree = 16,
                                .max_prefill_tokens = 64,
                                .max_draft = {.top_k = 2, .depth = 3},
                                .num_slots = 4,
                                .num_pages = 4,
                                .page_size = 16,
                                .max_context = 16,
                                .vocabulary = 50};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SequencePlan Sequence(int slot, int committed, int prompt_length) {
  return {.slot = SlotId(slot),
          .committed = committed,
          .pages = {PageId(slot)},
          .prompt_length = prompt_length};
}

EmittedToken Token(int32_t token) {
  return {.token = token, .logprob = -1, .top = {}};
}

// The first chunk of a prompt of four tokens, which asks for log probabilities,
// beside the last of a prompt and a sequence; and the result with them.
class PromptLogprobsTest : public ::testing::Test {
 protected:
  PromptLogprobsTest() {
    StepPlan& plan = awaited_.plan;
    plan.prefills = {{.sequence = Sequence(0, 0, 4),
                      .tokens = {1, 2, 3},
                      .next_token = 4,
                      .prompt_logprobs = 1},
                     {.sequence = Sequence(1, 4, 6), .tokens = {1, 2}}};
    plan.sequences = {Sequence(2, 5, 1)};
    plan.forest = *BuildForest(
        std::vector<NodeList>{{.token = {10}, .parent = {kNoParent}}});
    EXPECT_TRUE(Validate(plan, kLimits).ok()) << Validate(plan, kLimits);
    result_.prefills = {
        {.committed = 3, .emitted = {}, .proposal = {}},
        {.committed = 6, .emitted = {Token(9)}, .proposal = {}}};
    result_.sequences = {
        {.committed = 6, .emitted = {Token(9)}, .proposal = {}}};
    for (const int32_t token : {2, 3, 4}) {
      of().prompt_logprobs.push_back(Token(token));
      of().prompt_logprobs.back().top = {{.token = 7, .logprob = -0.5f}};
    }
  }

  SequenceResult& of() { return result_.prefills[0]; }
  std::string Message() const {
    return std::string(ValidateResult(awaited_, kLimits, result_).message());
  }

  AwaitedRound awaited_;
  StepResult result_;
};

TEST_F(PromptLogprobsTest, AllMayBeThereOrNone) {
  EXPECT_EQ(Message(), "");
  of().prompt_logprobs[1].logprob = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(Message(), "");
  of().prompt_logprobs.pop_back();
  EXPECT_EQ(Message(),
            "prefill 0: the number of prompt log-probabilities is 2; allowed "
            "is 3");
  of().prompt_logprobs.clear();
  EXPECT_EQ(Message(), "");
}

TEST_F(PromptLogprobsTest, TheyAreOfThePromptAndNumbers) {
  const std::vector<EmittedToken> good = of().prompt_logprobs;
  of().prompt_logprobs[2].token = 5;
  EXPECT_EQ(Message(), "prefill 0: a token of the prompt is 5; allowed is 4");
  of().prompt_logprobs = good;
  of().prompt_logprobs[0].top.clear();
  EXPECT_EQ(Message(),
            "prefill 0: the number of top log-probabilities is 0; allowed is "
            "1");
  of().prompt_logprobs = good;
  of().prompt_logprobs[0].top[0].token = 50;
  EXPECT_EQ(Message(), "prefill 0: a top token is 50; allowed is [0, 49]");
  of().prompt_logprobs = good;
  of().prompt_logprobs[0].logprob = kNan;
  EXPECT_EQ(Message(),
            "prefill 0: a log-probability is nan; allowed is a number");
}

TEST_F(PromptLogprobsTest, NobodyElseHasAny) {
  result_.prefills[1].prompt_logprobs = {Token(2)};
  EXPECT_EQ(Message(),
            "prefill 1: the number of prompt log-probabilities is 1; allowed "
            "is 0");
  result_.prefills[1].prompt_logprobs.clear();
  result_.sequences[0].prompt_logprobs = {Token(2)};
  EXPECT_EQ(Message(),
            "sequence 0: the number of prompt log-probabilities is 1; allowed "
            "is 0");
}

TEST_F(PromptLogprobsTest, TheChunkMayFailAtAnyOfItsTokens) {
  of().bad_logits_position = 1;
  EXPECT_EQ(Message(),
            "prefill 0: the number of prompt log-probabilities is 3; allowed "
            "is 0");
  of().prompt_logprobs.clear();
  EXPECT_EQ(Message(), "");
  of().bad_logits_position = 3;
  EXPECT_EQ(Message(),
            "prefill 0: bad_logits_position is 3 where no token was to be "
            "drawn");
  of().bad_logits_position = 1;
  awaited_.plan.prefills[0].prompt_logprobs.reset();
  EXPECT_EQ(Message(),
            "prefill 0: bad_logits_position is 1 where no token was to be "
            "drawn");
}

}  // namespace
}  // namespace bole
