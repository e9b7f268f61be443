#include "scheduler_service/policy/fixed_policy.h"

#include "common/draft_shape.h"
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
  const FixedPolicy tree(Ask(SpeculationMode::kTree), 4);
  const RoundBounds bounds = tree.BoundsFor(kLimits, /*has_drafter=*/true);

  EXPECT_EQ(bounds.draft, (DraftShape{.top_k = 3, .depth = 4}));
  EXPECT_EQ(bounds.max_nodes_per_tree, 16);
}

TEST(FixedPolicyTest, AChainHasANodeForEachLevelAndTheRoot) {
  const FixedPolicy chain(Ask(SpeculationMode::kChain), 4);
  const RoundBounds bounds = chain.BoundsFor(kLimits, /*has_drafter=*/true);

  EXPECT_EQ(bounds.draft, (DraftShape{.top_k = 1, .depth = 4}));
  EXPECT_EQ(bounds.max_nodes_per_tree, 5);
}

TEST(FixedPolicyTest, WithoutADrafterThereAreRootsOnly) {
  const FixedPolicy off(Ask(SpeculationMode::kOff), 4);
  const FixedPolicy tree(Ask(SpeculationMode::kTree), 4);

  for (const RoundBounds& bounds :
       {off.BoundsFor(kLimits, true), tree.BoundsFor(kLimits, false)}) {
    EXPECT_FALSE(bounds.draft.has_value());
    EXPECT_EQ(bounds.max_nodes_per_tree, 1);
  }
}

TEST(FixedPolicyTest, TheBudgetGrowsWithTheBatch) {
  const FixedPolicy policy(Ask(SpeculationMode::kTree, /*nodes=*/8), 4);
  const RoundBounds bounds = policy.BoundsFor(kLimits, true);

  const RoundChoice choice = policy.Choose(
      {.num_sequences = 3, .trees = {}, .limits = kLimits, .bounds = bounds});

  EXPECT_EQ(choice.budget, 24);
  EXPECT_EQ(choice.max_nodes_per_tree, 8);
  EXPECT_EQ(choice.draft, bounds.draft);
  EXPECT_EQ(choice.lease_rounds, 4);
}

TEST(FixedPolicyTest, NothingIsLentWhileAnythingWaitsOrIsPrefilled) {
  const FixedPolicy policy(Ask(SpeculationMode::kTree), 4);

  EXPECT_EQ(policy
                .Choose({.trees = {},
                         .others_wait = true,
                         .limits = kLimits,
                         .bounds = {}})
                .lease_rounds,
            1);
  EXPECT_EQ(
      policy
          .Choose(
              {.trees = {}, .prefills = true, .limits = kLimits, .bounds = {}})
          .lease_rounds,
      1);
}

}  // namespace
}  // namespace bole
