#include "scheduler_service/policy/fixed_policy.h"

#include <vector>

#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr StepLimits kLimits = {.max_nodes = 100,
                                .max_nodes_per_tree = 16,
                                .max_draft = {.top_k = 3, .depth = 4}};

Speculation Ask(SpeculationMode mode, int nodes = 32) {
  return {.mode = mode, .shape = {.top_k = 4, .depth = 8}, .nodes = nodes};
}

TEST(FixedPolicyTest, TheWorkerBoundsWhatWasAskedFor) {
  const RoundBounds bounds =
      BoundsFor(Ask(SpeculationMode::kTree), kLimits, /*has_drafter=*/true);

  EXPECT_EQ(bounds.draft, (DraftShape{.top_k = 3, .depth = 4}));
  EXPECT_EQ(bounds.max_nodes_per_tree, 16);
}

TEST(FixedPolicyTest, AChainHasANodeForEachLevelAndTheRoot) {
  const RoundBounds bounds =
      BoundsFor(Ask(SpeculationMode::kChain), kLimits, /*has_drafter=*/true);

  EXPECT_EQ(bounds.draft, (DraftShape{.top_k = 1, .depth = 4}));
  EXPECT_EQ(bounds.max_nodes_per_tree, 5);
}

TEST(FixedPolicyTest, WithoutADrafterThereAreRootsOnly) {
  for (const RoundBounds& bounds :
       {BoundsFor(Ask(SpeculationMode::kOff), kLimits, true),
        BoundsFor(Ask(SpeculationMode::kTree), kLimits, false)}) {
    EXPECT_FALSE(bounds.draft.has_value());
    EXPECT_EQ(bounds.max_nodes_per_tree, 1);
  }
}

TEST(FixedPolicyTest, TheBudgetGrowsWithTheBatch) {
  const RoundBounds bounds =
      BoundsFor(Ask(SpeculationMode::kTree, /*nodes=*/8), kLimits, true);
  FixedPolicy policy(bounds, /*lease_rounds=*/4, OffReason::kAsked);
  const std::vector<SequenceView> sequences(3);
  const std::vector<ProposalTree> trees(3);

  const RoundChoice choice =
      policy.Choose({.sequences = sequences, .trees = trees});

  EXPECT_EQ(choice.budget, 24);
  EXPECT_EQ(choice.draft, bounds.draft);
  EXPECT_EQ(choice.lease_rounds, 4);
  EXPECT_EQ(choice.lease_budget, 24);
  EXPECT_EQ(choice.off_reason, OffReason::kNone);
}

TEST(FixedPolicyTest, WhatDoesNotSpeculateSaysWhyAndDefersNothing) {
  FixedPolicy policy(RoundBounds(), /*lease_rounds=*/4, OffReason::kNoDrafter);

  const RoundChoice choice = policy.Choose({});

  EXPECT_FALSE(choice.draft.has_value());
  EXPECT_FALSE(choice.defers_draft);
  EXPECT_EQ(choice.off_reason, OffReason::kNoDrafter);
}

TEST(FixedPolicyTest, NothingIsLentWhileAnythingWaitsOrIsPrefilled) {
  FixedPolicy policy(RoundBounds(), /*lease_rounds=*/4, OffReason::kAsked);

  EXPECT_EQ(policy.Choose({.others_wait = true}).lease_rounds, 1);
  EXPECT_EQ(policy.Choose({.prefill_tokens = 8}).lease_rounds, 1);
}

}  // namespace
}  // namespace bole
