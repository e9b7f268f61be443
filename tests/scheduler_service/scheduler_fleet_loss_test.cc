// Workers that are lost at every stage of what they do.
#include <chrono>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/asked.h"
#include "tests/scheduler_service/fleet_fixture.h"
#include "tests/scheduler_service/requests.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::Asked;
using ::bole::testing::ExpectModelsText;
using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::SchedulerFleetTest;
using ::std::chrono::milliseconds;
using ::std::chrono::seconds;

TEST_F(SchedulerFleetTest, RequestsOutliveTheLastWorkerThatIsRemoved) {
  ConnectAll();
  AskOne(30, 20);
  AskOne(30, 20);
  for (int worker : {0, 1}) {
    Tell(worker, WorkerRemoved{});
    Lose(worker);
  }
  ASSERT_EQ(gone_.size(), 2u);
  now_ += seconds(29);
  Look();
  EXPECT_FALSE(scheduler_.idle());

  Add(0);
  Connect(0);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, RequestsEndWhenNoWorkerIsAddedForHalfAMinute) {
  Connect(0);
  AskOne(30, 20);
  Tell(1, WorkerRemoved{});
  Tell(0, WorkerRemoved{});
  Lose(0);
  now_ += seconds(30);
  Look();
  ExpectEnd(asked_[0].reader, absl::StatusCode::kUnavailable);
}

enum class Stage { kPrefill, kDecode, kLease };

class WorkerLostTest : public SchedulerFleetTest,
                       public ::testing::WithParamInterface<Stage> {
 protected:
  WorkerLostTest()
      : SchedulerFleetTest(/*num_workers=*/3,
                           GetParam() == Stage::kLease ? kMaxLeaseRounds : 1) {}

  // Whether the next round of the worker is of that stage.
  bool IsReached(int worker) {
    if (!workers_[worker]->has_plan()) return false;
    const StepPlan& plan = workers_[worker]->next_plan();
    switch (GetParam()) {
      case Stage::kPrefill:
        return !plan.prefills.empty() && plan.prefills[0].next_token;
      case Stage::kDecode:
        return plan.prefills.empty();
      case Stage::kLease:
        return plan.lease.has_value();
    }
    return false;
  }
};

// Every worker in turn, again and again, until all is done.
TEST_P(WorkerLostTest, EveryTokenComesOnceAndInOrder) {
  ConnectAll();
  for (int i = 0; i < 15; ++i) AskOne(150 + 10 * i, 80);
  int reached = 0;
  int lost = 0;
  for (int turn = 0; !scheduler_.idle() && turn < 2000; ++turn) {
    const int worker = turn % 3;
    if (!workers_[worker]->has_plan()) continue;
    const bool is_reached = IsReached(worker);
    // In mid-lease, and in the middle of a prefill.
    if (is_reached) RunRound(worker);
    if (is_reached && ++reached % 5 == 0) {
      ++lost;
      Lose(worker);
      ASSERT_EQ(scheduler_.status().audit, "");
      Connect(worker);
    } else if (workers_[worker]->has_plan()) {
      RunRound(worker);
    }
    ASSERT_EQ(scheduler_.status().audit, "");
  }

  EXPECT_GE(lost, 3);
  for (Asked& asked : asked_) {
    const bool ended_well = ExpectModelsText(asked);
    // Who is hit twice in its prefill ends.
    EXPECT_TRUE(ended_well || GetParam() == Stage::kPrefill);
  }
  ExpectAllFree();
}

INSTANTIATE_TEST_SUITE_P(Stages, WorkerLostTest,
                         ::testing::Values(Stage::kPrefill, Stage::kDecode,
                                           Stage::kLease));

class WorkerOnTrialTest : public SchedulerFleetTest {};

TEST_F(WorkerOnTrialTest, AWorkerThatWasLostGetsOneRequestUntilItAnswers) {
  ConnectAll();
  Lose(0);
  for (int i = 0; i < 4; ++i) AskOne(20, 60);
  ASSERT_EQ(scheduler_.status().waiting, 3);

  Connect(0);

  EXPECT_EQ(RunningOn(0), 1);
  RunRound(0);
  EXPECT_GT(RunningOn(0), 1);
  RunAll();
  ExpectAllWhole();
}

// It hangs in every round, and is connected again whenever it was given up.
TEST_F(WorkerOnTrialTest, AWorkerThatNeverAnswersFailsNobodyWhileAnotherDoes) {
  ConnectAll();
  for (int i = 0; i < 12; ++i) AskOne(20, 60);
  for (int loss = 0; loss < 10; ++loss) {
    Lose(0);
    Connect(0);
    RunRound(1);
    ASSERT_EQ(scheduler_.status().audit, "");
  }
  Lose(0);
  RunAll();

  ExpectAllWhole();
}

TEST_F(WorkerOnTrialTest, WhoHasLostAWorkerTriesOneIfThereIsNoOther) {
  ConnectAll();
  AskOne(20, 60);
  AskOne(20, 60);
  Lose(1);
  Lose(0);

  Connect(0);

  EXPECT_EQ(RunningOn(0), 1);
  RunAll();
  ExpectAllWhole();
}

// Everything at random, for every other seed with leases.
class RandomFleetTest : public SchedulerFleetTest,
                        public ::testing::WithParamInterface<int> {
 protected:
  static constexpr int kWorkers = 3;

  RandomFleetTest() : SchedulerFleetTest(kWorkers, GetParam() % 2 * 3 + 1) {
    rng_.seed(GetParam());
  }

  void AskAtRandom() {
    Asked asked{.prompt = RandomPrompt(rng_, testing::UniformInt(rng_, 1, 130)),
                .max_tokens = testing::UniformInt(rng_, 1, 60),
                .reader = {}};
    auto request = MakeRequest(asked.prompt, asked.max_tokens, now_);
    request->tenant = std::to_string(testing::UniformInt(rng_, 0, 2));
    request->priority = testing::UniformInt(rng_, 0, 1);
    if (testing::UniformInt(rng_, 0, 4) == 0) {
      request->deadline = now_ + milliseconds(testing::UniformInt(rng_, 0, 80));
    }
    asked.reader = Ask(std::move(request));
    asked_.push_back(std::move(asked));
  }

  void DoSomething() {
    const int worker = testing::UniformInt(rng_, 0, kWorkers - 1);
    const WorkerStatus status = scheduler_.status().workers[worker];
    if (status.connected && workers_[worker]->closed() == status.epoch) {
      return Lose(worker);
    }
    switch (testing::UniformInt(rng_, 0, 29)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return AskAtRandom();
      case 4:
        if (asked_.empty()) return;
        asked_[testing::UniformInt(rng_, 0,
                                   static_cast<int>(asked_.size()) - 1)]
            .reader.stream->Cancel();
        return Look();
      case 5:
      case 6:
        if (!status.connected) return Connect(worker);
        return;
      case 7:
        if (status.connected && testing::UniformInt(rng_, 0, 3) == 0) {
          Lose(worker);
        }
        return;
      case 8:
        if (status.connected && testing::UniformInt(rng_, 0, 9) == 0) {
          Tell(worker, WorkerDraining{status.epoch});
        }
        return;
      default:
        if (workers_[worker]->has_plan()) RunRound(worker);
    }
  }
};

TEST_P(RandomFleetTest, NothingIsLostRepeatedOrLeaked) {
  for (int i = 0; i < 4000; ++i) {
    SCOPED_TRACE(i);
    DoSomething();
    ASSERT_EQ(scheduler_.status().audit, "");
    ASSERT_FALSE(HasFailure());
  }
  for (int worker = 0; worker < kWorkers; ++worker) {
    Lose(worker);
    Connect(worker);
  }
  now_ += seconds(1);
  Look();
  RunAll();

  ExpectAllFree();
  EXPECT_EQ(dequeued_, std::ssize(asked_));
  int whole = 0;
  for (Asked& asked : asked_) whole += ExpectModelsText(asked) ? 1 : 0;
  EXPECT_GT(whole, std::ssize(asked_) / 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFleetTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace bole
