// Several models behind one scheduler, each with workers of its own.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/ids.h"
#include "gtest/gtest.h"
#include "scheduler_service/watch/scheduler_status.h"
#include "tests/scheduler_service/asked.h"
#include "tests/scheduler_service/fleet_fixture.h"
#include "tests/scheduler_service/requests.h"

namespace bole {
namespace {

using ::bole::testing::Asked;
using ::bole::testing::ExpectModelsText;
using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::SchedulerFleetTest;

constexpr ModelId kFirst(0);
constexpr ModelId kSecond(1);

// Workers 0 and 1 have the first model, worker 2 has the second.
class SchedulerModelsTest : public SchedulerFleetTest {
 protected:
  SchedulerModelsTest() : SchedulerFleetTest(/*num_workers=*/3) {
    workers_[2]->set_model("second");
  }

  void AskFor(ModelId model, int prompt_length) {
    Asked asked{.prompt = RandomPrompt(rng_, prompt_length),
                .max_tokens = 20,
                .reader = {}};
    auto request = MakeRequest(asked.prompt, asked.max_tokens, now_);
    request->model = model;
    asked.reader = Ask(std::move(request));
    asked_.push_back(std::move(asked));
  }
};

TEST_F(SchedulerModelsTest, ARequestRunsOnAWorkerOfItsModel) {
  ConnectAll();

  for (int i = 0; i < 2; ++i) AskFor(kFirst, 30);
  AskFor(kSecond, 40);

  EXPECT_EQ(RunningOn(0), 1);
  EXPECT_EQ(RunningOn(1), 1);
  EXPECT_EQ(RunningOn(2), 1);
  ASSERT_TRUE(workers_[2]->has_plan());
  EXPECT_EQ(workers_[2]->next_plan().prefills.at(0).tokens.size(), 40u);
  RunAll();
  ExpectAllWhole();
}

TEST_F(SchedulerModelsTest, AModelWithoutWorkersHoldsNobodyElseUp) {
  Connect(0);
  AskFor(kSecond, 30);
  AskFor(kFirst, 30);

  RunAll();

  EXPECT_TRUE(ExpectModelsText(asked_[1]));
  EXPECT_EQ(scheduler_.status().models.at(0).waiting, 0);
  EXPECT_EQ(scheduler_.status().models.at(1).waiting, 0);
  ExpectEnd(asked_[0].reader, FailureReason::kNoWorker);
}

TEST_F(SchedulerModelsTest, OneModelsLostWorkerLeavesTheOtherModelAlone) {
  ConnectAll();
  AskFor(kFirst, 30);
  AskFor(kSecond, 30);
  EXPECT_EQ(scheduler_.status().models.at(0).running, 1);
  EXPECT_EQ(scheduler_.status().models.at(1).running, 1);

  Lose(2);
  now_ += std::chrono::seconds(20);
  Look();
  EXPECT_EQ(scheduler_.status().models.at(1).running, 0);
  EXPECT_EQ(scheduler_.status().models.at(1).waiting, 1);
  EXPECT_EQ(scheduler_.status().models.at(1).waiting_tokens, 30u);
  now_ += std::chrono::seconds(20);
  Look();
  RunAll();

  EXPECT_TRUE(ExpectModelsText(asked_[0]));
  ExpectEnd(asked_[1].reader, FailureReason::kNoWorker);
  ExpectAllFree();
}

TEST_F(SchedulerModelsTest, AWorkerOfNoServedModelIsRefusedWithBothValues) {
  workers_[0]->set_model("third");

  Connect(0);

  const WorkerStatus status = scheduler_.status().workers[0];
  EXPECT_FALSE(status.connected);
  for (const char* name : {"\"third\"", "\"simulated\"", "\"second\""}) {
    EXPECT_NE(status.last_error.find(name), std::string::npos)
        << status.last_error;
  }
}

TEST_F(SchedulerModelsTest, AWorkerMayComeBackWithTheOtherModel) {
  Connect(0);
  Connect(1);
  workers_[0]->set_model("second");
  Connect(0);

  AskFor(kSecond, 30);
  AskFor(kFirst, 40);

  EXPECT_EQ(RunningOn(0), 1);
  EXPECT_EQ(RunningOn(1), 1);
  EXPECT_EQ(workers_[0]->next_plan().prefills.at(0).tokens.size(), 30u);
  RunAll();
  ExpectAllWhole();
}

}  // namespace
}  // namespace bole
