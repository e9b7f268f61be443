// One scheduler and several workers, some of which leave.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/fleet_fixture.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scrape.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerFleetTest;
using ::bole::testing::SimulatedOutput;
using ::std::chrono::milliseconds;
using ::std::chrono::seconds;

TEST_F(SchedulerFleetTest, RequestsGoWhereNothingRuns) {
  ConnectAll();

  AskOne(20, 10);
  AskOne(20, 10);

  EXPECT_EQ(RunningOn(0), 1);
  EXPECT_EQ(RunningOn(1), 1);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, ALostWorkersRequestsGoOnElsewhereAtOnce) {
  ConnectAll();
  AskOne(100, 60);
  for (int i = 0; i < 5; ++i) RunRound(0);
  EXPECT_FALSE(workers_[1]->has_plan());

  Lose(0);

  EXPECT_EQ(scheduler_.status().waiting, 0);
  ASSERT_TRUE(workers_[1]->has_plan());
  EXPECT_GT(workers_[1]->next_plan().prefills[0].tokens.size(), 103u);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, WhoMovesIsCountedByTheReason) {
  const auto migrations = [this](const char* reason) {
    return testing::Scrape(*metrics_.registry())
        .at(std::string("bole_migrations_total{reason=\"") + reason + "\"}");
  };
  ConnectAll();
  for (int i = 0; i < 4; ++i) AskOne(20, 60);
  for (int i = 0; i < 4; ++i) {
    RunRound(0);
    RunRound(1);
  }
  const int drained = RunningOn(0);
  ASSERT_GT(drained, 0);

  Tell(0, WorkerDraining{workers_[0]->epoch()});
  RunRound(0);
  const int lost = RunningOn(1);
  Lose(1);

  EXPECT_EQ(migrations("drained"), drained);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(migrations("lost"), lost);
  EXPECT_EQ(migrations("evicted"), 0);
}

TEST_F(SchedulerFleetTest, WhoIsInPrefillIsCountedUntilItDecodes) {
  ConnectAll();
  AskOne(20, 60);
  EXPECT_EQ(scheduler_.status().workers[0].in_prefill, 1);

  RunRound(0);

  EXPECT_EQ(scheduler_.status().workers[0].in_prefill, 0);
  EXPECT_EQ(RunningOn(0), 1);
}

TEST_F(SchedulerFleetTest, TheyWaitWhereThereIsNoRoomAndGoOnThen) {
  ConnectAll();
  for (int i = 0; i < 8; ++i) AskOne(20, 40);
  for (int i = 0; i < 3; ++i) {
    RunRound(0);
    RunRound(1);
  }
  ASSERT_EQ(RunningOn(0), 4);
  ASSERT_EQ(RunningOn(1), 4);

  Lose(1);

  EXPECT_EQ(scheduler_.status().waiting, 4);
  EXPECT_EQ(scheduler_.status().audit, "");
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, TwoLossesWithoutANewTokenEndARequest) {
  ConnectAll();
  AskOne(20, 60);
  RunRound(0);
  RunRound(0);
  Lose(0);
  ASSERT_EQ(RunningOn(1), 1);

  Lose(1);

  ExpectEnd(asked_[0].reader, FailureReason::kWorkersLost);
  EXPECT_GT(asked_[0].reader.tokens.size(), 0u);
}

TEST_F(SchedulerFleetTest, ATokenBetweenLossesKeepsARequestAlive) {
  ConnectAll();
  AskOne(20, 60);
  for (int loss = 0; loss < 6; ++loss) {
    RunRound(loss % 2);
    RunRound(loss % 2);  // The prefill repeats what is known.
    Lose(loss % 2);
    Connect(loss % 2);
  }
  RunAll();

  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, TheGraceBeginsWhenTheLastWorkerIsLost) {
  ConnectAll();
  AskOne(20, 60);
  Lose(1);
  now_ += seconds(20);
  Lose(0);
  EXPECT_EQ(scheduler_.NextWakeup(), now_ + seconds(30));

  now_ += seconds(29);
  Look();
  EXPECT_EQ(scheduler_.status().waiting, 1);
  now_ += seconds(1);
  Look();

  ExpectEnd(asked_[0].reader, FailureReason::kNoWorker);
}

TEST_F(SchedulerFleetTest, ADrainingWorkersRequestsMove) {
  ConnectAll();
  for (int i = 0; i < 4; ++i) AskOne(20, 60);
  for (int i = 0; i < 4; ++i) {
    RunRound(0);
    RunRound(1);
  }
  ASSERT_GT(RunningOn(0), 0);

  Tell(0, WorkerDraining{workers_[0]->epoch()});
  RunRound(0);

  EXPECT_EQ(RunningOn(0), 0);
  EXPECT_EQ(workers_[0]->closed(), workers_[0]->epoch());
  Lose(0);
  RunAll();
  EXPECT_EQ(scheduler_.status().workers[1].last_error, "");
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, ADrainingWorkerKeepsThoseForWhomThereIsNoRoom) {
  ConnectAll();
  for (int i = 0; i < 7; ++i) AskOne(20, 60);
  for (int i = 0; i < 3; ++i) {
    RunRound(0);
    RunRound(1);
  }
  const int elsewhere = RunningOn(1);

  Tell(0, WorkerDraining{workers_[0]->epoch()});
  RunRound(0);
  RunRound(1);

  EXPECT_EQ(RunningOn(1), 4);
  EXPECT_EQ(RunningOn(0), 7 - 4);
  EXPECT_LT(elsewhere, 5);
  RunAll();
  EXPECT_EQ(workers_[0]->closed(), workers_[0]->epoch());
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, AnotherVocabularyIsRefusedWithBothValues) {
  Connect(0);
  AskOne(20, 30);
  WorkerNews other = workers_[1]->Connect();
  std::get<WorkerConnected>(other).description.limits.vocabulary = 300;

  Tell(1, std::move(other));

  EXPECT_EQ(workers_[1]->disconnected(),
            absl::AbortedError(
                "the worker's model \"simulated\" has a vocabulary of 300, the "
                "others have 256"));
  const SchedulerStatus status = scheduler_.status();
  EXPECT_FALSE(status.workers[1].connected);
  EXPECT_EQ(status.workers[1].last_error,
            workers_[1]->disconnected().ToString());
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, AnotherVocabularyIsTakenOnceNobodyRunsOrWaits) {
  ConnectAll();
  AskOne(20, 30);
  Lose(1);
  Lose(0);
  const auto connect_other = [this] {
    WorkerNews other = workers_[1]->Connect();
    std::get<WorkerConnected>(other).description.limits.vocabulary = 300;
    Tell(1, std::move(other));
  };

  connect_other();
  EXPECT_FALSE(scheduler_.status().workers[1].connected);
  now_ += std::chrono::minutes(1);
  Look();
  ExpectEnd(asked_[0].reader, FailureReason::kNoWorker);
  connect_other();

  EXPECT_TRUE(scheduler_.status().workers[1].connected);
  ExpectAllFree();
}

TEST_F(SchedulerFleetTest, ATenantWaitsOnlyForItsOwnFlood) {
  Connect(0);
  for (int i = 0; i < 12; ++i) {
    auto request = MakeRequest(RandomPrompt(rng_, 20), 20, now_);
    request->tenant = "flood";
    Ask(std::move(request));
    now_ += milliseconds(1);
  }
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  auto request = MakeRequest(prompt, 20, now_);
  request->tenant = "other";
  Reader reader = Ask(std::move(request));

  while (!reader.end && workers_[0]->has_plan()) {
    RunRound(0);
    reader.Read();
  }

  EXPECT_GT(scheduler_.status().waiting + scheduler_.status().running, 5);
  ExpectOutput(reader, SimulatedOutput(prompt, 20));
}

TEST_F(SchedulerFleetTest, AJobGoesOnFromWhatItsClientHas) {
  ConnectAll();
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  const std::vector<int32_t> whole = SimulatedOutput(prompt, 30);
  for (int had = 0; had < 30; ++had) {
    auto request = MakeRequest(prompt, 30, now_);
    request->resumed.assign(whole.begin(), whole.begin() + had);
    Reader reader = Ask(std::move(request));

    RunAll();

    ExpectOutput(reader, {whole.begin() + had, whole.end()});
  }
  ExpectAllFree();
}

TEST_F(SchedulerFleetTest, AHigherPriorityGoesFirst) {
  Connect(0);
  AskOne(20, 20);  // On its way.
  std::vector<Reader> readers;
  for (int i = 0; i < 6; ++i) {
    auto request = MakeRequest(RandomPrompt(rng_, 20), 20, now_);
    request->priority = i;
    readers.push_back(Ask(std::move(request)));
    now_ += milliseconds(1);
  }

  RunRound(0);
  RunRound(0);

  for (int i = 0; i < 6; ++i) {
    readers[i].Read();
    EXPECT_EQ(readers[i].tokens.empty(), i < 3) << i;
  }
  RunAll();
  ExpectAllFree();
}

// A worker with long rounds is free, one with short rounds will be soon.
class UnequalSpeedTest : public SchedulerFleetTest {
 protected:
  UnequalSpeedTest() {
    ConnectAll();
    AskOne(20, 10);
    AskOne(20, 400);
    now_ += milliseconds(1);
    Run(1, milliseconds(10));
    Run(0, milliseconds(1000));
    while (workers_[0]->has_plan()) {
      Run(1, milliseconds(10));
      Run(0, milliseconds(1000));
    }
    Run(1, milliseconds(10));
    for (int i = 0; i < 30; ++i) Run(1, milliseconds(10));
  }

  void Run(int worker, milliseconds time) {
    now_ += time;
    Tell(worker, workers_[worker]->Run());
  }
};

TEST_F(UnequalSpeedTest, ARequestWaitsForTheFasterOne) {
  ASSERT_TRUE(workers_[1]->has_plan());
  AskOne(20, 10);

  EXPECT_FALSE(workers_[0]->has_plan());
  EXPECT_EQ(scheduler_.status().audit, "");
  Run(1, milliseconds(5));
  EXPECT_EQ(RunningOn(1), 2);
}

TEST_F(UnequalSpeedTest, ButNoLongerThanItsRoundShouldTake) {
  ASSERT_TRUE(workers_[1]->has_plan());
  AskOne(20, 10);
  const TimePoint wakeup = scheduler_.NextWakeup();
  EXPECT_LT(wakeup, now_ + seconds(1));

  now_ = wakeup;
  Look();

  EXPECT_TRUE(workers_[0]->has_plan());
  EXPECT_EQ(RunningOn(0), 1);
}

TEST_F(SchedulerFleetTest, ARemovedWorkerServesUntilItIsLostAndIsThenLetGo) {
  ConnectAll();
  for (int i = 0; i < 4; ++i) AskOne(30, 20);

  Tell(0, WorkerRemoved{});
  RunRound(0);
  EXPECT_EQ(scheduler_.status().workers.size(), 2u);
  EXPECT_TRUE(gone_.empty());
  Lose(0);

  EXPECT_EQ(gone_, std::vector<WorkerId>{WorkerId(0)});
  EXPECT_EQ(scheduler_.status().workers.size(), 1u);
  Connect(0);  // On its way when it was let go.
  EXPECT_EQ(scheduler_.status().workers.size(), 1u);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, AWorkerThatIsAddedAgainBeforeItIsLostStays) {
  ConnectAll();
  Tell(0, WorkerRemoved{});
  Add(0);
  Lose(0);

  EXPECT_TRUE(gone_.empty());
  Connect(0);
  AskOne(30, 20);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerFleetTest, ARemovedWorkerThatIsNotConnectedIsLetGoAtOnce) {
  Connect(1);

  Tell(0, WorkerRemoved{});

  EXPECT_EQ(gone_, std::vector<WorkerId>{WorkerId(0)});
}

}  // namespace
}  // namespace bole
