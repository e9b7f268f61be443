// Requests that may be what kills the workers under them, or what makes a
// worker refuse a plan: they run alone, and nobody fails with them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/asked.h"
#include "tests/scheduler_service/fleet_fixture.h"

namespace bole {
namespace {

using ::bole::testing::Asked;
using ::bole::testing::ExpectModelsText;
using ::bole::testing::SchedulerFleetTest;

size_t NumPlanned(const StepPlan& plan) {
  return plan.prefills.size() + plan.sequences.size();
}

class SuspectTest : public SchedulerFleetTest {
 protected:
  SuspectTest() : SchedulerFleetTest(/*num_workers=*/3) {}

  // Moves all that runs to worker 1 and then to worker 2 by losing the workers
  // below them in the middle of a round.
  void LoseTwo() {
    Connect(1);
    Lose(0);
    Connect(2);
    Lose(1);
  }

  void ExpectUnavailable(Asked& asked, const std::string& said) {
    asked.reader.Read();
    ASSERT_TRUE(asked.reader.end.has_value());
    const absl::Status& status = asked.reader.end->status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(status.message().find(said), std::string::npos) << status;
  }
};

TEST_F(SuspectTest, UnderWhomTwoWorkersWereLostRunsAloneUntilItsNextToken) {
  Connect(0);
  for (int i = 0; i < 3; ++i) AskOne(40 + i, 20);
  RunRound(0);  // The first one's alone; all three are in the next one.

  LoseTwo();

  // Each of the three is prefilled by itself; the first, which has a token
  // already, needs another round for its next one.
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(workers_[2]->has_plan());
    EXPECT_EQ(NumPlanned(workers_[2]->next_plan()), 1u);
    RunRound(2);
  }
  EXPECT_EQ(NumPlanned(workers_[2]->next_plan()), 3u);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SuspectTest, AThirdLossEndsTheSuspectAndNobodyBesideIt) {
  Connect(0);
  AskOne(40, 20);
  LoseTwo();
  AskOne(50, 20);  // Waits for the round in which the first one is alone.

  Lose(2);
  Connect(2);
  RunAll();

  ExpectUnavailable(asked_[0], "3 workers were lost under this request");
  EXPECT_TRUE(ExpectModelsText(asked_[1]));
  ExpectAllFree();
}

TEST_F(SuspectTest, WithoutAnotherWorkerThanTheLostOneItFails) {
  Connect(0);
  AskOne(40, 20);
  Connect(1);
  Lose(0);

  Lose(1);

  ExpectUnavailable(asked_[0], "no other worker");
  Connect(1);
  ExpectAllFree();
}

TEST_F(SuspectTest, TheWorkerThatWasLostLastIsNotTriedAgain) {
  Connect(0);
  AskOne(40, 20);
  Connect(1);
  Lose(0);
  Connect(2);
  AskOne(50, 20);  // Keeps worker 2 busy.

  Lose(1);
  Connect(1);  // Free, and yet no place for the suspect.

  EXPECT_EQ(RunningOn(1), 0);
  EXPECT_EQ(scheduler_.status().waiting, 1);
  RunRound(2);
  EXPECT_EQ(RunningOn(2), 2);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SuspectTest, WhoHadNoRoundOnItsWayIsNotSuspected) {
  Connect(0);
  AskOne(40, 20);
  LoseTwo();
  AskOne(50, 20);
  // The second one waits on worker 2 beside the first, alone in its rounds.
  ASSERT_EQ(NumPlanned(workers_[2]->next_plan()), 1u);
  Connect(0);
  Connect(1);

  Lose(2);
  AskOne(60, 20);
  RunAll();

  EXPECT_TRUE(ExpectModelsText(asked_[1]));
  EXPECT_TRUE(ExpectModelsText(asked_[2]));
}

class RefusedPlanTest : public SchedulerFleetTest {
 protected:
  RefusedPlanTest() : SchedulerFleetTest(/*num_workers=*/1) {}

  // Runs all, but for plans with a prompt of `bad_length`, which the worker
  // refuses.
  void RunAllBut(int bad_length) {
    while (workers_[0]->has_plan()) {
      const StepPlan& plan = workers_[0]->next_plan();
      const auto is_bad = [&](const PrefillPlan& chunk) {
        return chunk.sequence.prompt_length == bad_length;
      };
      if (std::any_of(plan.prefills.begin(), plan.prefills.end(), is_bad)) {
        ++refused_;
        Tell(0, workers_[0]->Refuse(absl::InvalidArgumentError("slot is 9")));
      } else {
        RunRound(0);
      }
      ASSERT_EQ(scheduler_.status().audit, "");
    }
  }

  int refused_ = 0;
};

TEST_F(RefusedPlanTest, OnlyTheRequestThatIsRefusedAloneFails) {
  Connect(0);
  for (const int length : {30, 31, 32, 33}) AskOne(length, 20);
  RunRound(0);  // The first one's alone.

  RunAllBut(/*bad_length=*/32);

  EXPECT_EQ(refused_, 2);
  for (Asked& asked : asked_) {
    const bool bad = asked.prompt.size() == 32;
    EXPECT_EQ(ExpectModelsText(asked), !bad);
    if (!bad) continue;
    EXPECT_EQ(asked.reader.end->status(),
              Failed(FailureReason::kWorkerFailed,
                     "the worker refused the round: slot is 9"));
  }
  ExpectAllFree();
}

TEST_F(RefusedPlanTest, WhatWasRefusedOnceForAnotherRunsTogetherAgain) {
  Connect(0);
  for (const int length : {30, 31, 32}) AskOne(length, 20);
  RunRound(0);  // The first one's alone.
  Tell(0, workers_[0]->Refuse(absl::InvalidArgumentError("slot is 9")));

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(NumPlanned(workers_[0]->next_plan()), 1u);
    RunRound(0);
  }

  EXPECT_EQ(NumPlanned(workers_[0]->next_plan()), 3u);
  RunAll();
  ExpectAllWhole();
}

}  // namespace
}  // namespace bole
