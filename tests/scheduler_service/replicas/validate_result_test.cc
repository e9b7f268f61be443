#include "scheduler_service/replicas/validate_result.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr StepLimits kLimits = {.max_requests = 4,
                                .max_nodes = 32,
                                .max_nodes_per_tree = 16,
                                .max_prefill_tokens = 64,
                                .max_draft = {.top_k = 2, .depth = 3},
                                .num_slots = 4,
                                .num_pages = 64,
                                .page_size = 16,
                                .max_context = 100,
                                .vocabulary = 50};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kStop = 49;

SequencePlan Sequence(int slot, int committed, int max_new_tokens) {
  SequencePlan sequence{.slot = SlotId(slot),
                        .committed = committed,
                        .stop_tokens = {kStop},
                        .prompt_length = 1,
                        .max_new_tokens = max_new_tokens};
  for (int i = 0; i < 7; ++i) sequence.pages.emplace_back(7 * slot + i);
  return sequence;
}

EmittedToken Token(int32_t token) {
  return {.token = token, .logprob = -1, .top = {}};
}

// A chunk that goes on, one that ends its prompt, and a tree:
//   10 ─┬─ 11 ─── 13 ─── kStop
//       └─ 12
AwaitedRound SomeRound() {
  AwaitedRound awaited;
  StepPlan& plan = awaited.plan;
  plan.draft = DraftShape{.top_k = 2, .depth = 3};
  plan.prefills = {
      {.sequence = Sequence(0, 0, 5), .tokens = {1, 2, 3}, .next_token = 4},
      {.sequence = Sequence(1, 4, 5), .tokens = {1, 2}}};
  plan.prefills[1].sequence.prompt_length = 6;
  plan.sequences = {Sequence(2, 20, 5)};
  plan.sequences[0].sampling.logprobs = true;
  plan.sequences[0].sampling.top_logprobs = 1;
  plan.forest = *BuildForest(std::vector<NodeList>{
      {.token = {10, 11, 12, 13, kStop}, .parent = {kNoParent, 0, 0, 1, 3}}});
  EXPECT_TRUE(Validate(plan, kLimits).ok()) << Validate(plan, kLimits);
  return awaited;
}

// Its result: 11 is accepted, and 14 comes after it.
StepResult SomeResult() {
  StepResult result;
  result.prefills = {
      {.committed = 3, .emitted = {}, .proposal = {}},
      {.committed = 6,
       .emitted = {Token(9)},
       .proposal = ProposalTree{{kNoParent, 0, 1}, {9, 8, 7}, {0, -1, -1}}}};
  result.sequences = {
      {.committed = 22,
       .emitted = {Token(11), Token(14)},
       .accepted_drafts = 1,
       .proposal = ProposalTree{{kNoParent, 0}, {14, 8}, {0, -1}}}};
  for (EmittedToken& token : result.sequences[0].emitted) {
    token.top = {{.token = 5, .logprob = -0.5f}};
  }
  return result;
}

TEST(ValidateResultTest, AcceptsWhatThePlanLeadsTo) {
  EXPECT_TRUE(ValidateResult(SomeRound(), kLimits, SomeResult()).ok())
      << ValidateResult(SomeRound(), kLimits, SomeResult());
}

TEST(ValidateResultTest, AProposalMayBeMissing) {
  StepResult result = SomeResult();
  result.prefills[1].proposal.reset();
  result.sequences[0].proposal.reset();

  EXPECT_TRUE(ValidateResult(SomeRound(), kLimits, result).ok());
}

TEST(ValidateResultTest, AStopTokenEndsAWalkInsideOfTheTree) {
  StepResult result = SomeResult();
  result.sequences[0] = {.committed = 23,
                         .emitted = {Token(11), Token(13), Token(kStop)},
                         .accepted_drafts = 3,
                         .proposal = {}};
  AwaitedRound awaited = SomeRound();
  awaited.plan.sequences[0].sampling = {};
  EXPECT_TRUE(ValidateResult(awaited, kLimits, result).ok());

  awaited.plan.sequences[0].stop_tokens = {48};
  EXPECT_EQ(ValidateResult(awaited, kLimits, result).message(),
            "sequence 0: the tree goes on after the last emitted token, 49, "
            "which is neither a stop token nor the last of max_new_tokens = 5");
  awaited.plan.sequences[0].max_new_tokens = 3;
  EXPECT_TRUE(ValidateResult(awaited, kLimits, result).ok());
}

TEST(ValidateResultTest, NothingFollowsAStopToken) {
  StepResult result = SomeResult();
  AwaitedRound awaited = SomeRound();
  awaited.plan.sequences[0].stop_tokens = {11};

  EXPECT_EQ(ValidateResult(awaited, kLimits, result).message(),
            "sequence 0: a token was emitted after stop token 11");
}

struct Wrong {
  std::string name;
  std::function<void(StepResult&)> spoil;
  std::string message;
};

class WrongResultTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongResultTest, IsRefusedWithFieldAndValue) {
  StepResult result = SomeResult();
  GetParam().spoil(result);

  const absl::Status status = ValidateResult(SomeRound(), kLimits, result);

  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), GetParam().message);
}

using R = StepResult;

INSTANTIATE_TEST_SUITE_P(
    Rounds, WrongResultTest,
    ::testing::Values(
        Wrong{"round", [](R& r) { r.round = 1; }, "round is 1; allowed is 0"},
        Wrong{"more_rounds", [](R& r) { r.is_last = false; },
              "a round follows round 0, of 1"},
        Wrong{"fewer_prefills", [](R& r) { r.prefills.pop_back(); },
              "the number of prefills is 1; allowed is 2"},
        Wrong{"more_sequences",
              [](R& r) { r.sequences.push_back(r.sequences[0]); },
              "the number of sequences is 2; allowed is 1"},
        Wrong{"a_forest", [](R& r) { r.forest.emplace(); },
              "the number of forests is 1; allowed is 0"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Prefills, WrongResultTest,
    ::testing::Values(
        Wrong{"committed", [](R& r) { r.prefills[0].committed = 4; },
              "prefill 0: committed is 4; allowed is 3"},
        Wrong{"a_token_of_a_chunk_that_ends_nothing",
              [](R& r) { r.prefills[0].emitted = {Token(4)}; },
              "prefill 0: the number of emitted tokens is 1; allowed is 0"},
        Wrong{"a_proposal_of_such_a_chunk",
              [](R& r) { r.prefills[0].proposal = r.prefills[1].proposal; },
              "prefill 0: a proposal of 3 nodes, where none was requested"},
        Wrong{"two_tokens",
              [](R& r) { r.prefills[1].emitted.push_back(Token(4)); },
              "prefill 1: the number of emitted tokens is 2; allowed is 1"},
        Wrong{"no_token", [](R& r) { r.prefills[1].emitted.clear(); },
              "prefill 1: the number of emitted tokens is 0; allowed is 1"},
        Wrong{"accepted_drafts",
              [](R& r) { r.prefills[1].accepted_drafts = 1; },
              "prefill 1: accepted_drafts is 1; allowed is 0"},
        Wrong{"token", [](R& r) { r.prefills[1].emitted[0].token = 50; },
              "prefill 1: an emitted token is 50; allowed is [0, 49]"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Sequences, WrongResultTest,
    ::testing::Values(
        Wrong{"committed", [](R& r) { r.sequences[0].committed = 1 << 30; },
              "sequence 0: committed is 1073741824; allowed is 22"},
        Wrong{"committed_back", [](R& r) { r.sequences[0].committed = -1; },
              "sequence 0: committed is -1; allowed is 22"},
        Wrong{"no_token", [](R& r) { r.sequences[0].emitted.clear(); },
              "sequence 0: the number of emitted tokens is 0; allowed is "
              "[1, 5]"},
        Wrong{"too_many_tokens",
              [](R& r) { r.sequences[0].emitted.resize(6, Token(1)); },
              "sequence 0: the number of emitted tokens is 6; allowed is "
              "[1, 5]"},
        Wrong{"more_tokens_than_the_path",
              [](R& r) { r.sequences[0].emitted.push_back(Token(1)); },
              "sequence 0: 3 emitted tokens, of which the tree ends after 2"},
        Wrong{"accepted_drafts",
              [](R& r) { r.sequences[0].accepted_drafts = 2; },
              "sequence 0: accepted_drafts is 2; allowed is 1"},
        Wrong{"promised_of_planned_nodes",
              [](R& r) { r.sequences[0].promised_drafts = 0.5f; },
              "sequence 0: promised_drafts is 0.5; allowed is [0, 0]"},
        Wrong{"negative_token",
              [](R& r) { r.sequences[0].emitted[1].token = -1; },
              "sequence 0: an emitted token is -1; allowed is [0, 49]"},
        Wrong{"no_top_logprobs",
              [](R& r) { r.sequences[0].emitted[0].top.clear(); },
              "sequence 0: the number of top log-probabilities is 0; allowed "
              "is 1"},
        Wrong{"top_token",
              [](R& r) { r.sequences[0].emitted[0].top[0].token = 99; },
              "sequence 0: a top token is 99; allowed is [0, 49]"},
        Wrong{"logprob", [](R& r) { r.sequences[0].emitted[1].logprob = kNan; },
              "sequence 0: a log-probability is nan; allowed is a number"},
        Wrong{"top_logprob",
              [](R& r) { r.sequences[0].emitted[1].top[0].logprob = kNan; },
              "sequence 0: a top log-probability is nan; allowed is a "
              "number"}),
    [](const auto& test) { return test.param.name; });

ProposalTree& Proposal(StepResult& result) {
  return *result.sequences[0].proposal;
}

INSTANTIATE_TEST_SUITE_P(
    Proposals, WrongResultTest,
    ::testing::Values(
        Wrong{"root", [](R& r) { Proposal(r).token[0] = 11; },
              "sequence 0: the proposal's root is 11; allowed is 14"},
        Wrong{"token", [](R& r) { Proposal(r).token[1] = 50; },
              "sequence 0: a proposed token is 50; allowed is [0, 49]"},
        Wrong{"late_parent", [](R& r) { Proposal(r).parent[1] = 1; },
              "sequence 0: proposal: tree: node 1 has parent 1, which is not "
              "an earlier node"},
        Wrong{"log_rho_that_grows", [](R& r) { Proposal(r).log_rho[1] = 1; },
              "sequence 0: proposal: tree: node 1 has log_rho 1, its parent 0 "
              "has 0"},
        Wrong{"log_rho_that_is_no_number",
              [](R& r) { Proposal(r).log_rho[1] = kNan; },
              "sequence 0: proposal: tree: node 1 has log_rho nan, its parent "
              "0 has 0"},
        Wrong{"nothing", [](R& r) { Proposal(r) = {}; },
              "sequence 0: proposal: tree: no root"},
        Wrong{
            "twins",
            [](R& r) {
              Proposal(r) = {{kNoParent, 0, 1, 0}, {14, 8, 8, 8}, {0, 0, 0, 0}};
            },
            "sequence 0: proposal: two children of node 0 carry token 8"},
        Wrong{"too_deep",
              [](R& r) {
                Proposal(r) = {
                    {kNoParent, 0, 1, 2, 3}, {14, 1, 2, 3, 4}, {0, 0, 0, 0, 0}};
              },
              "sequence 0: the proposal's depth is 4; allowed is [0, 3]"},
        Wrong{"too_large",
              [](R& r) {
                Proposal(r) = {std::vector<int32_t>(12, 0),
                               std::vector<int32_t>(12, 14),
                               std::vector<float>(12, 0)};
                Proposal(r).parent[0] = kNoParent;
              },
              "sequence 0: the proposal's number of nodes is 12; allowed is "
              "[1, 11]"}),
    [](const auto& test) { return test.param.name; });

// A lease over two sequences, after whose first round one is at its end.
class LaterRoundTest : public ::testing::Test {
 protected:
  LaterRoundTest() {
    StepPlan& plan = awaited_.plan;
    plan.draft = DraftShape{.top_k = 2, .depth = 3};
    plan.sequences = {Sequence(0, 20, 5), Sequence(1, 30, 5)};
    plan.forest = *BuildForest(
        std::vector<NodeList>{{.token = {10, 11}, .parent = {kNoParent, 0}},
                              {.token = {20}, .parent = {kNoParent}}});
    plan.lease = {.rounds = 3, .budget = 6, .max_nodes_per_tree = 3};
    StepResult first;
    first.is_last = false;
    first.sequences = {
        {.committed = 22,
         .emitted = {Token(11), Token(12)},
         .accepted_drafts = 1,
         .proposal = {}},
        {.committed = 31, .emitted = {Token(kStop)}, .proposal = {}}};
    EXPECT_TRUE(ValidateResult(awaited_, kLimits, first).ok())
        << ValidateResult(awaited_, kLimits, first);
    AdvanceRound(kLimits, first, awaited_);
    second_.round = 1;
    second_.is_last = false;
    second_.sequences = {{.committed = 24,
                          .emitted = {Token(13), Token(14)},
                          .accepted_drafts = 1,
                          .proposal = {}},
                         {.committed = 31, .emitted = {}, .proposal = {}}};
    SetForest({.token = {12, 13}, .parent = {kNoParent, 0}}, {});
  }

  void SetForest(NodeList first, NodeList second) {
    second_.forest = *BuildForest(
        std::vector<NodeList>{std::move(first), std::move(second)});
  }
  std::string Message() const {
    return std::string(ValidateResult(awaited_, kLimits, second_).message());
  }

  AwaitedRound awaited_;
  StepResult second_;
};

TEST_F(LaterRoundTest, ItGoesOnWhereTheFirstOneEnded) {
  EXPECT_EQ(awaited_.round, 1);
  EXPECT_EQ(awaited_.plan.sequences[0].committed, 22);
  EXPECT_EQ(awaited_.plan.sequences[0].max_new_tokens, 3);
  EXPECT_EQ(awaited_.plan.forest.first_node, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(awaited_.plan.forest.token, (std::vector<int32_t>{12}));
  EXPECT_EQ(Message(), "");
}

TEST_F(LaterRoundTest, ItsForestIsWithinTheLease) {
  SetForest({.token = {13, 14}, .parent = {kNoParent, 0}}, {});
  EXPECT_EQ(Message(), "forest: request 0: the root is 13; allowed is 12");
  SetForest({}, {});
  EXPECT_EQ(Message(),
            "forest: request 0: the number of nodes is 0; allowed is 1");
  SetForest({.token = {12, 13}, .parent = {kNoParent, kNoParent}}, {});
  EXPECT_EQ(Message(), "forest: request 0: node 1 is a second root");
  SetForest({.token = {12, 1, 2, 3}, .parent = {kNoParent, 0, 0, 0}}, {});
  EXPECT_EQ(Message(), "forest: request 0 has 4 nodes; the limit is 3");
  SetForest({.token = {12}, .parent = {kNoParent}},
            {.token = {kStop}, .parent = {kNoParent}});
  EXPECT_EQ(Message(),
            "forest: request 1: the number of nodes is 1; allowed is 0");
  second_.forest = *BuildForest(
      std::vector<NodeList>{{.token = {12}, .parent = {kNoParent}}});
  EXPECT_EQ(Message(), "forest: the number of requests is 1; allowed is 2");
  second_.forest.reset();
  EXPECT_EQ(Message(), "the number of forests is 0; allowed is 1");
}

TEST_F(LaterRoundTest, ATreeKeepsToItsCap) {
  awaited_.plan.lease->bounds = {{.floor = 1, .cap = 2},
                                 {.floor = 1, .cap = 3}};
  EXPECT_EQ(Message(), "");
  SetForest({.token = {12, 13, 3}, .parent = {kNoParent, 0, 0}}, {});
  EXPECT_EQ(Message(),
            "forest: request 0: the number of nodes is 3; allowed is [1, 2]");
}

TEST_F(LaterRoundTest, ANodePromisesOneDraftAtMost) {
  std::optional<float>& promised = second_.sequences[0].promised_drafts;
  for (const float possible : {0.0f, 0.25f, 1.0f}) {
    promised = possible;
    EXPECT_EQ(Message(), "");
  }
  promised = 1.5f;
  EXPECT_EQ(Message(), "sequence 0: promised_drafts is 1.5; allowed is [0, 1]");
  promised = -0.5f;
  EXPECT_EQ(Message(),
            "sequence 0: promised_drafts is -0.5; allowed is [0, 1]");
  promised = kNan;
  EXPECT_EQ(Message(), "sequence 0: promised_drafts is nan; allowed is [0, 1]");
  promised.reset();
  second_.sequences[1].promised_drafts = 0.5f;
  EXPECT_EQ(Message(), "sequence 1: promised_drafts is 0.5; allowed is [0, 0]");
}

TEST_F(LaterRoundTest, AForestDoesNotReachBeyondTheContext) {
  awaited_.plan.sequences[0].committed = 99;

  EXPECT_EQ(Message(),
            "forest: request 0: committed + nodes is 101; allowed is [0, 100]");
}

TEST_F(LaterRoundTest, WhatHasEndedStaysAsItIs) {
  second_.sequences[1].committed = 32;
  EXPECT_EQ(Message(), "sequence 1: committed is 32; allowed is 31");
  second_.sequences[1].emitted = {Token(1)};
  EXPECT_EQ(Message(),
            "sequence 1: the number of emitted tokens is 1; allowed is 0");
}

TEST_F(LaterRoundTest, ProposalsComeWithTheLastRound) {
  second_.sequences[0].proposal = ProposalTree{{kNoParent}, {14}, {0}};
  EXPECT_EQ(Message(),
            "sequence 0: a proposal of 1 nodes, where none was requested");
  second_.is_last = true;
  EXPECT_EQ(Message(), "");
}

}  // namespace
}  // namespace bole
