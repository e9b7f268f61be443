#include "worker_service/calibration/plan_maker.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "common/step_costs.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"
#include "worker_service/calibration/combinations.h"
#include "worker_service/engine/validate_plan.h"

namespace bole {
namespace {

using ::bole::testing::RandomTree;
using ::bole::testing::UniformInt;

StepLimits RandomLimits(std::mt19937& rng) {
  StepLimits limits{.max_requests = UniformInt(rng, 1, 40),
                    .max_nodes = 0,
                    .max_nodes_per_tree = UniformInt(rng, 1, 128),
                    .max_prefill_tokens = UniformInt(rng, 1, 2048),
                    .max_draft = {.top_k = UniformInt(rng, 1, kMaxDraftTopK),
                                  .depth = UniformInt(rng, 1, kMaxDraftDepth)},
                    .num_slots = UniformInt(rng, 1, 48),
                    .num_pages = UniformInt(rng, 1, 4000),
                    .page_size = UniformInt(rng, 1, 64),
                    .max_context = UniformInt(rng, 16, 8192),
                    .vocabulary = 1000,
                    .max_lease_rounds = UniformInt(rng, 1, kMaxLeaseRounds)};
  limits.max_nodes =
      UniformInt(rng, limits.max_requests, 16 * limits.max_requests + 128);
  return limits;
}

// What an engine could answer: tokens, and trees that grew from them.
StepResult ResultOf(const StepPlan& plan, std::mt19937& rng) {
  StepResult result;
  const auto answer = [&] {
    SequenceResult of;
    of.emitted.resize(1);
    of.emitted[0].token = UniformInt(rng, 0, 999);
    if (plan.draft) {
      ProposalTree tree = RandomTree(rng, plan.draft->num_candidates() + 1);
      tree.token[0] = of.emitted[0].token;
      for (int32_t& token : tree.token) token %= 1000;
      // Siblings have different tokens.
      for (int i = 1; i < tree.size(); ++i) tree.token[i] = i % 1000;
      of.proposal = std::move(tree);
    }
    return of;
  };
  for (size_t i = 0; i < plan.prefills.size(); ++i) {
    result.prefills.push_back(answer());
  }
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    result.sequences.push_back(answer());
  }
  return result;
}

// Every plan for these limits is valid. Returns how many kinds there are.
int CheckPlans(const StepLimits& limits, bool has_drafter, CalibrationSize size,
               std::mt19937& rng) {
  const absl::StatusOr<CalibrationLayout> layout = LayoutOf(limits, size);
  if (!layout.ok()) {
    EXPECT_EQ(layout.status().code(), absl::StatusCode::kFailedPrecondition);
    return 0;
  }
  PlanMaker plans(limits, *layout, {});
  const auto run = [&](const StepPlan& plan) {
    EXPECT_EQ(ValidatePlan(plan, limits, has_drafter), absl::OkStatus());
    EXPECT_EQ(plans.Apply(plan, ResultOf(plan, rng)), absl::OkStatus());
  };
  for (const StepPlan& plan : plans.Prefills()) run(plan);
  for (int i = 0; has_drafter && i < layout->most_tail; ++i) {
    run(plans.DeferringPlan(i));
  }
  const std::vector<Combination> all =
      CombinationsOf(limits, has_drafter, size, *layout);
  for (const Combination& combination : all) {
    const std::optional<StepPlan> before = plans.Before(combination);
    if (before) run(*before);
    const StepPlan plan = plans.PlanOf(combination);
    run(plan);
    EXPECT_EQ(static_cast<int>(plan.sequences.size()), combination.requests);
    EXPECT_EQ(
        QuantitiesOf(plan)[static_cast<size_t>(Quantity::kTailTokens)],
        static_cast<double>(combination.requests) * combination.draft_tail);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_LE(static_cast<int>(all.size()), kMaxCombinations);
  return static_cast<int>(all.size());
}

TEST(PlanMakerTest, PlansAreValidForAnyLimits) {
  std::mt19937 rng(1);
  int usable = 0;
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const StepLimits limits = RandomLimits(rng);
    const auto size =
        i % 3 == 0 ? CalibrationSize::kFull : CalibrationSize::kCoarse;
    if (CheckPlans(limits, i % 4 != 0, size, rng) > 0) ++usable;
  }
  EXPECT_GT(usable, 20);
}

// The defaults of a worker on a GPU.
StepLimits GpuLimits() {
  return {.max_requests = 32,
          .max_nodes = 512,
          .max_nodes_per_tree = 128,
          .max_prefill_tokens = 2048,
          .max_draft = {.top_k = 4, .depth = 8},
          .num_slots = 32,
          .num_pages = 32 * 512,
          .page_size = 64,
          .max_context = 32768,
          .vocabulary = 1000,
          .max_lease_rounds = 8};
}

TEST(PlanMakerTest, AFullCalibrationHasEveryKindOfRound) {
  const StepLimits limits = GpuLimits();
  std::mt19937 rng(2);
  EXPECT_GT(CheckPlans(limits, true, CalibrationSize::kFull, rng), 150);
  const auto layout = LayoutOf(limits, CalibrationSize::kFull);
  ASSERT_TRUE(layout.ok());

  const std::vector<Combination> all =
      CombinationsOf(limits, true, CalibrationSize::kFull, *layout);

  std::set<int> requests;
  std::set<int> rows;
  int leases = 0;
  int mixed = 0;
  int held_out = 0;
  std::set<int> tails;
  for (const Combination& combination : all) {
    held_out += combination.held_out ? 1 : 0;
    if (combination.held_out) continue;
    requests.insert(combination.requests);
    rows.insert(combination.requests * combination.nodes_per_tree);
    if (combination.requests == 32) tails.insert(combination.draft_tail);
    leases += combination.rounds > 1 ? 1 : 0;
    mixed += combination.chunk > 0 && combination.requests > 0 ? 1 : 0;
  }
  EXPECT_EQ(requests, (std::set<int>{0, 1, 2, 4, 8, 16, 32}));
  for (const int bucket : {1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512}) {
    EXPECT_EQ(rows.count(bucket), 1u) << bucket;
  }
  EXPECT_EQ(tails, (std::set<int>{0, 1, 4, 16, 64}));
  EXPECT_GT(leases, 10);
  EXPECT_GT(mixed, 10);
  EXPECT_GT(held_out, 25);
}

TEST(PlanMakerTest, WithoutADrafterNothingIsDrafted) {
  const auto layout = LayoutOf(GpuLimits(), CalibrationSize::kCoarse);
  ASSERT_TRUE(layout.ok());
  for (const Combination& combination :
       CombinationsOf(GpuLimits(), false, CalibrationSize::kCoarse, *layout)) {
    EXPECT_FALSE(combination.draft.has_value());
    EXPECT_EQ(combination.draft_tail, 0);
  }
}

TEST(PlanMakerTest, AWorkerThatIsTooSmallIsRefused) {
  StepLimits limits = GpuLimits();
  limits.max_context = 100;

  EXPECT_EQ(LayoutOf(limits, CalibrationSize::kCoarse).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(PlanMakerTest, LogitsThatAreNotNumbersEndIt) {
  const StepLimits limits = GpuLimits();
  const auto layout = LayoutOf(limits, CalibrationSize::kCoarse);
  ASSERT_TRUE(layout.ok());
  PlanMaker plans(limits, *layout, {});
  const StepPlan plan = plans.PlanOf({.requests = 1, .committed = 8});
  StepResult result;
  result.sequences.resize(1);
  result.sequences[0].bad_logits_position = 8;

  EXPECT_EQ(plans.Apply(plan, result).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace bole
