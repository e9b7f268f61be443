// When a scheduler lets the worker go on by itself, and what comes of it.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "common/packed_forest.h"
#include "gtest/gtest.h"
#include "scheduler_service/policy/speculation.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/scrape.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::SimulatedWorker;
using ::bole::testing::TreeOptions;

class SchedulerLeaseTest : public SchedulerTest {
 protected:
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_lease_rounds = kMaxLeaseRounds;
    return limits;
  }
  SchedulerLeaseTest() : SchedulerTest(TreeOptions(), Limits()) {
    Tell(worker_.Connect());
  }

  const StepPlan& plan() const { return worker_.next_plan(); }
};

TEST_F(SchedulerLeaseTest, RoundsAreLentOnceNothingIsPrefilled) {
  Ask(RandomPrompt(rng_, 20), 60);
  EXPECT_FALSE(plan().lease.has_value());
  RunRound();

  ASSERT_TRUE(plan().lease.has_value());
  EXPECT_EQ(plan().lease->rounds, 4);
  EXPECT_EQ(plan().lease->budget, 8);
  EXPECT_EQ(plan().lease->max_nodes_per_tree, 8);
}

TEST_F(SchedulerLeaseTest, WhatARequestBoundsIsNotLentAndTheTextIsTheSame) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  const SpeculationOverride overrides[] = {
      {.mode = SpeculationMode::kOff},
      {.mode = SpeculationMode::kChain},
      {.mode = SpeculationMode::kChain, .max_nodes = 3},
      {.max_nodes = 2},
      {.max_depth = 1},
  };
  for (const SpeculationOverride& bounds : overrides) {
    auto request = testing::MakeRequest(prompt, 60, now_);
    request->speculation = bounds;
    Reader reader = Ask(std::move(request));
    while (worker_.has_plan()) {
      EXPECT_FALSE(plan().lease.has_value());
      const PackedForest& forest = plan().forest;
      EXPECT_LE(forest.num_nodes(), bounds.max_nodes);
      for (const int32_t depth : forest.depth) {
        EXPECT_LE(depth,
                  bounds.mode == SpeculationMode::kOff ? 0 : bounds.max_depth);
      }
      RunRound();
    }
    ExpectOutput(reader, SimulatedOutput(prompt, 60));
  }
  ExpectAllFree();
}

TEST_F(SchedulerLeaseTest, TokensComeAfterEachRound) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  Reader reader = Ask(prompt, 80);
  RunRound();
  size_t before = 0;
  for (int round = 0; round < 4; ++round) {
    RunRound();
    reader.Read();
    EXPECT_GT(reader.tokens.size(), before);
    before = reader.tokens.size();
  }
  RunAll();

  ExpectOutput(reader, SimulatedOutput(prompt, 80));
  ExpectAllFree();
}

// What answers told at their ends.
struct Counts {
  double promised = 0;
  int accepted = 0;
};

// The simulated drafter is right as often as its probabilities say, so what is
// accepted is what was promised, up to chance: of some 3,000 drafts a few
// hundredths.
constexpr double kChance = 0.06;

TEST_F(SchedulerLeaseTest, EveryRoundOfALeaseCountsWhatItsNodesPromised) {
  Counts told;
  for (int i = 0; i < 60; ++i) {
    Reader reader = Ask(RandomPrompt(rng_, 20), 80);
    RunAll();
    reader.Read();
    const auto& of = (*reader.end)->speculation;
    told.promised += of.promised_tokens;
    told.accepted += of.accepted_drafts;
  }

  EXPECT_GT(told.accepted, 2000);
  EXPECT_NEAR(told.accepted / told.promised, 1, kChance);
  const auto series = testing::Scrape(*metrics_.registry());
  EXPECT_NEAR(series.at("bole_spec_promised_tokens_total"), told.promised,
              1e-6 * told.promised);
  EXPECT_EQ(series.at("bole_spec_kept_tokens_total"), told.accepted);
  EXPECT_EQ(series.at("bole_spec_accepted_tokens_total"), told.accepted);
  EXPECT_LE(series.at("bole_verify_nodes_selected_total"),
            series.at("bole_verify_budget_nodes_total"));
  // Depth by depth the accepted paths are as many tokens, on trees as deep.
  double accepted = 0;
  for (int depth = 1; depth <= kMaxDraftDepth; ++depth) {
    const std::string label = "{depth=\"" + std::to_string(depth) + "\"}";
    const double here =
        series.at("bole_spec_accepted_tokens_per_depth_total" + label);
    EXPECT_LE(here,
              series.at("bole_spec_verified_trees_per_depth_total" + label));
    accepted += here;
  }
  EXPECT_EQ(accepted, told.accepted);
}

TEST_F(SchedulerLeaseTest, WithoutAWordOfTheWorkerLaterRoundsDoNotCount) {
  Counts told;
  for (int i = 0; i < 120; ++i) {
    Reader reader = Ask(RandomPrompt(rng_, 20), 80);
    while (worker_.has_plan()) {
      WorkerOutcome outcome = worker_.Run();
      for (SequenceResult& of : outcome.result->sequences) {
        of.promised_drafts.reset();
      }
      Tell(std::move(outcome));
    }
    reader.Read();
    told.promised += (*reader.end)->speculation.promised_tokens;
    told.accepted += (*reader.end)->speculation.accepted_drafts;
  }

  const auto series = testing::Scrape(*metrics_.registry());
  const double kept = series.at("bole_spec_kept_tokens_total");
  EXPECT_LT(kept, 0.5 * told.accepted);
  EXPECT_NEAR(kept / told.promised, 1, 2 * kChance);
  EXPECT_NEAR(series.at("bole_spec_promised_tokens_total"), told.promised,
              1e-6 * told.promised);
  EXPECT_EQ(series.at("bole_spec_accepted_tokens_total"), told.accepted);
}

TEST_F(SchedulerLeaseTest, SequencesEndWithinALeaseAndOthersGoOn) {
  const std::vector<int32_t> first = RandomPrompt(rng_, 12);
  const std::vector<int32_t> second = RandomPrompt(rng_, 30);
  Reader short_reader = Ask(first, 6);
  Reader long_reader = Ask(second, 90);
  RunAll();

  ExpectOutput(short_reader, SimulatedOutput(first, 6));
  ExpectOutput(long_reader, SimulatedOutput(second, 90));
  ExpectAllFree();
}

TEST_F(SchedulerLeaseTest, ANewRequestWaitsForTheEndOfTheLease) {
  Reader first = Ask(RandomPrompt(rng_, 12), 90);
  RunRound();
  RunRound();
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 16);
  Reader second = Ask(prompt, 5);
  for (int round = 1; round < 4; ++round) {
    EXPECT_TRUE(plan().prefills.empty());
    RunRound();
  }

  EXPECT_EQ(plan().prefills.size(), 1u);
  EXPECT_FALSE(plan().lease.has_value());
  RunAll();
  ExpectOutput(second, SimulatedOutput(prompt, 5));
}

TEST_F(SchedulerLeaseTest, ACancelledSequenceIsLeftOutOfWhatIsStillToCome) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 12);
  Reader cancelled = Ask(RandomPrompt(rng_, 12), 90);
  Reader other = Ask(prompt, 40);
  RunRound();
  while (!plan().lease) RunRound();
  RunRound();
  cancelled.stream->Cancel();
  Look();
  RunAll();

  ExpectEnd(cancelled, absl::StatusCode::kCancelled);
  ExpectOutput(other, SimulatedOutput(prompt, 40));
  ExpectAllFree();
}

TEST_F(SchedulerLeaseTest, AWorkerLostWithinALeaseCostsNoToken) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 12);
  Reader reader = Ask(prompt, 70);
  RunRound();
  RunRound();
  RunRound();
  Tell(worker_.Lose());
  Tell(worker_.Connect());
  RunAll();

  ExpectOutput(reader, SimulatedOutput(prompt, 70));
  ExpectAllFree();
}

TEST_F(SchedulerLeaseTest, ARoundOutOfTurnLosesTheWorker) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 12);
  Reader reader = Ask(prompt, 70);
  RunRound();
  WorkerOutcome outcome = worker_.Run();
  outcome.result->round = 2;
  Tell(std::move(outcome));

  EXPECT_EQ(worker_.disconnected().message(),
            "the worker broke the protocol: its result of plan 2: round is 2; "
            "allowed is 0");
  Tell(worker_.Connect());
  RunAll();
  ExpectOutput(reader, SimulatedOutput(prompt, 70));
}

TEST_F(SchedulerLeaseTest, ARoundTooManyLosesTheWorker) {
  Ask(RandomPrompt(rng_, 12), 90);
  RunRound();
  for (int round = 0; round < 3; ++round) RunRound();
  WorkerOutcome outcome = worker_.Run();
  outcome.result->is_last = false;
  Tell(std::move(outcome));

  EXPECT_EQ(worker_.disconnected().message(),
            "the worker broke the protocol: its result of plan 2: a round "
            "follows round 3, of 4");
}

TEST_F(SchedulerLeaseTest, EveryRoundHasADeadlineOfItsOwn) {
  Ask(RandomPrompt(rng_, 12), 90);
  RunRound();
  now_ += std::chrono::seconds(100);
  RunRound();
  ASSERT_EQ(plan().lease->rounds, 4);
  EXPECT_EQ(scheduler_.NextWakeup(), now_ + std::chrono::seconds(120));

  now_ += std::chrono::seconds(120);
  Look();

  EXPECT_TRUE(absl::IsDeadlineExceeded(worker_.disconnected()));
}

// Pages for a round of two requests, but not for the rounds of a lease.
class ScarceLeaseTest : public SchedulerTest {
 protected:
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_lease_rounds = kMaxLeaseRounds;
    limits.num_pages = 5;
    return limits;
  }
  ScarceLeaseTest() : SchedulerTest(TreeOptions(), Limits()) {
    Tell(worker_.Connect());
  }
};

TEST_F(ScarceLeaseTest, NothingIsLentWithoutPagesForAllRounds) {
  const std::vector<int32_t> first = RandomPrompt(rng_, 10);
  const std::vector<int32_t> second = RandomPrompt(rng_, 10);
  Reader first_reader = Ask(first, 40);
  Reader second_reader = Ask(second, 40);
  while (!worker_.next_plan().prefills.empty()) RunRound();

  ASSERT_EQ(worker_.next_plan().sequences.size(), 2u);
  EXPECT_FALSE(worker_.next_plan().lease.has_value());
  RunAll();
  ExpectOutput(first_reader, SimulatedOutput(first, 40));
  ExpectOutput(second_reader, SimulatedOutput(second, 40));
  ExpectAllFree();
}

}  // namespace
}  // namespace bole
