#include "scheduler_service/policy/make_policy.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/cost_table.h"
#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "common/step_costs.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/policy/goodput_policy.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {
namespace {

// 64 rows are almost free, 128 cost half as much again.
WorkerDescription Calibrated() {
  auto table = std::make_shared<CostTable>();
  table->costs = *StepCosts::Parse(R"({"terms": [
      {"name": "forward", "axes": [["forward_rows", [1, 64, 128, 256]]],
       "microseconds": [4000, 4200, 6000, 12000]}]})");
  WorkerDescription worker;
  worker.protocol_version = kDeferralProtocolVersion;
  worker.limits = {.max_requests = 8,
                   .max_nodes = 256,
                   .max_nodes_per_tree = 128,
                   .max_prefill_tokens = 512,
                   .max_draft = {.top_k = 4, .depth = 8},
                   .max_lease_rounds = 8};
  worker.has_drafter = true;
  worker.row_buckets = {1, 64, 128, 256};
  worker.costs = table;
  return worker;
}

std::unique_ptr<RoundPolicy> Make(PolicyKind kind,
                                  const WorkerDescription& worker,
                                  PolicyOptions options = {}) {
  options.kind = kind;
  return MakePolicy(options, worker, std::make_shared<DraftHistory>());
}

ProposalTree Star(int children, double chance) {
  ProposalTree tree{.parent = {kNoParent}, .token = {0}, .log_rho = {0}};
  for (int i = 0; i < children; ++i) {
    tree.parent.push_back(0);
    tree.token.push_back(i + 1);
    tree.log_rho.push_back(static_cast<float>(std::log(chance)));
  }
  return tree;
}

TEST(MakePolicyTest, WithoutATableItIsTheFixedOneAndSaysSo) {
  WorkerDescription worker = Calibrated();
  worker.costs = nullptr;
  const std::vector<SequenceView> sequences(2);
  const std::vector<ProposalTree> trees(2, Star(3, 0.1));

  const auto policy = Make(PolicyKind::kGoodput, worker);

  EXPECT_EQ(std::string(policy->fallback()), "no_table");
  EXPECT_EQ(policy->Choose({.sequences = sequences, .trees = trees}).budget,
            2 * kDefaultTreeNodes);
  EXPECT_EQ(std::string(Make(PolicyKind::kFixed, worker)->fallback()), "");
}

TEST(MakePolicyTest, OffDraftsNothingAndDefersNothing) {
  const auto policy = Make(PolicyKind::kOff, Calibrated());

  EXPECT_FALSE(policy->bounds().draft.has_value());
  EXPECT_FALSE(policy->Choose({}).defers_draft);
  EXPECT_EQ(policy->Choose({}).off_reason, OffReason::kAsked);
}

TEST(MakePolicyTest, EpsilonTakesTheLargestForestWithinTheBound) {
  const std::vector<SequenceView> sequences(4);
  const std::vector<ProposalTree> trees(4, Star(63, 0.01));
  const auto budget_at = [&](double epsilon) {
    PolicyOptions options;
    options.epsilon = epsilon;
    return Make(PolicyKind::kEpsilon, Calibrated(), options)
        ->Choose({.sequences = sequences, .trees = trees})
        .budget;
  };

  EXPECT_EQ(budget_at(0), 64);  // Four rows are padded to 64 anyway.
  EXPECT_EQ(budget_at(0.4), 64);
  EXPECT_EQ(budget_at(0.5), 128);
  EXPECT_EQ(budget_at(10), 256);
}

TEST(MakePolicyTest, AdaServeGivesFloorsToThoseThatAreBehind) {
  const std::vector<ProposalTree> trees = {Star(40, 0.02), Star(40, 0.01)};
  const std::vector<SequenceView> sequences = {
      {},
      {.seconds_per_token = 0.01,
       .seconds_since_first = 0.1066,  // 11.06 tokens are due after the round,
       .tokens_since_first = 10}};     // so that it needs 1.06.

  PolicyOptions options;
  options.capacity = 64;
  const RoundChoice choice =
      Make(PolicyKind::kAdaServe, Calibrated(), options)
          ->Choose({.sequences = sequences, .trees = trees});

  EXPECT_EQ(choice.budget, 64);
  ASSERT_EQ(choice.bounds.size(), 2u);
  EXPECT_EQ(choice.bounds[0].floor, 1);
  EXPECT_NEAR(choice.bounds[1].floor, 9, 2);
  EXPECT_TRUE(choice.draft.has_value());
}

TEST(MakePolicyTest, PrefillSharesTheRoundAsFarAsTargetsAllow) {
  const std::vector<ProposalTree> trees = {Star(0, 1)};
  const auto chunk_for = [&](double seconds_per_token) {
    const std::vector<SequenceView> sequences = {
        {.seconds_per_token = seconds_per_token}};
    return Make(PolicyKind::kGoodput, Calibrated())
        ->Choose(
            {.sequences = sequences, .trees = trees, .prefill_tokens = 1000})
        .prefill_tokens;
  };

  EXPECT_EQ(chunk_for(0), 512);
  EXPECT_EQ(chunk_for(1), 512);
  EXPECT_LE(chunk_for(0.002), 128);
  EXPECT_GE(chunk_for(0.0001), 64);
}

}  // namespace
}  // namespace bole
