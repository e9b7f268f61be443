#include "scheduler_service/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::ScarcePagesTest;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::std::chrono::milliseconds;

TEST_F(SchedulerTest, ARequestIsPrefilledDraftedAndEnds) {
  Tell(worker_.Connect());
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 200);

  Reader reader = Ask(prompt, 30);
  RunAll();

  ExpectOutput(reader, SimulatedOutput(prompt, 30));
  EXPECT_EQ((*reader.end)->matched, MatchedStop());
  EXPECT_GT((*reader.end)->accepted_drafts, 0);
  // The first token comes with the prompt; every round adds one to its drafts,
  // but the last, which may end on a draft.
  const int counted =
      1 + (*reader.end)->rounds + (*reader.end)->accepted_drafts;
  EXPECT_TRUE(counted == 30 || counted == 31) << counted;
  EXPECT_EQ(dequeued_, 1);
  ExpectAllFree();
}

TEST_F(SchedulerTest, TheStatusSaysHowMuchIsSpeculated) {
  Tell(worker_.Connect());
  EXPECT_EQ(scheduler_.status().speculation.mode, SpeculationMode::kTree);
  EXPECT_EQ(scheduler_.status().speculation.nodes, 8);
  WorkerNews without_drafter = worker_.Connect();
  std::get<WorkerConnected>(without_drafter).description.has_drafter = false;

  Tell(without_drafter);

  EXPECT_EQ(scheduler_.status().speculation.mode, SpeculationMode::kOff);
}

TEST_F(SchedulerTest, LongPromptsAreCutOnTheGrid) {
  Tell(worker_.Connect());

  Ask(RandomPrompt(rng_, 70), 1);
  RunAll();
  Ask(RandomPrompt(rng_, 70), 5);
  Ask(RandomPrompt(rng_, 200), 5);
  RunRound();

  // 128 tokens a round: 70 were taken by the first, so that 58 are left for the
  // second, which a cut on the grid does not allow.
  ASSERT_TRUE(worker_.has_plan());
  EXPECT_EQ(worker_.next_plan().prefills.size(), 1u);
  EXPECT_EQ(worker_.next_plan().prefills[0].tokens.size(), 128u);
}

TEST_F(SchedulerTest, NothingIsSentWithoutAWorker) {
  Ask(RandomPrompt(rng_, 10), 5);

  EXPECT_FALSE(worker_.has_plan());
}

TEST_F(SchedulerTest, MoreRequestsThanSlotsTakeTurnsInOrder) {
  Tell(worker_.Connect());
  std::vector<Reader> readers;
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 10; ++i) {
    prompts.push_back(RandomPrompt(rng_, 5 + i));
    readers.push_back(Ask(prompts.back(), 20));
    now_ += milliseconds(1);
  }
  EXPECT_EQ(scheduler_.status().running, 1);

  RunRound();
  EXPECT_EQ(scheduler_.status().running, 4);
  EXPECT_EQ(scheduler_.status().waiting, 6);
  EXPECT_EQ(scheduler_.status().audit, "");
  RunAll();

  for (int i = 0; i < 10; ++i) {
    ExpectOutput(readers[i], SimulatedOutput(prompts[i], 20));
  }
  ExpectAllFree();
}

TEST_F(SchedulerTest, AStopTokenEndsTheTextWithoutIt) {
  Tell(worker_.Connect());
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 12);
  const std::vector<int32_t> output = SimulatedOutput(prompt, 50);
  auto request = MakeRequest(prompt, 50, now_);
  request->stop_tokens = {output[17]};
  size_t at = 0;
  while (output[at] != output[17]) ++at;

  Reader reader = Ask(std::move(request));
  RunAll();
  reader.Read();

  EXPECT_EQ(reader.tokens,
            std::vector<int32_t>(output.begin(), output.begin() + at + 1));
  EXPECT_EQ(reader.text, std::string(output.begin(), output.begin() + at));
  EXPECT_EQ((*reader.end)->matched, MatchedStop(output[17]));
  ExpectAllFree();
}

TEST_F(SchedulerTest, AStopStringEndsTokensInsideOfARound) {
  Tell(worker_.Connect());
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 12);
  const std::vector<int32_t> output = SimulatedOutput(prompt, 50);
  const std::string text(output.begin(), output.end());
  auto request = MakeRequest(prompt, 50, now_);
  request->text.stop = {text.substr(20, 3)};
  const size_t at = text.find(text.substr(20, 3));

  Reader reader = Ask(std::move(request));
  RunAll();
  reader.Read();

  EXPECT_EQ(reader.tokens,
            std::vector<int32_t>(output.begin(), output.begin() + at + 3));
  EXPECT_EQ(reader.text, text.substr(0, at));
  EXPECT_EQ((*reader.end)->matched, MatchedStop(text.substr(20, 3)));
  ExpectAllFree();
}

TEST_F(SchedulerTest, ACancelledRequestFreesAllWhileItsPlanIsOnItsWay) {
  Tell(worker_.Connect());
  Reader reader = Ask(RandomPrompt(rng_, 30), 50);
  RunRound();
  ASSERT_TRUE(worker_.has_plan());

  reader.stream->Cancel();
  Look();

  ExpectEnd(reader, FailureReason::kCancelled);
  ExpectAllFree();
  // What is on its way comes back to nobody.
  Reader next = Ask({'x'}, 10);
  RunAll();
  ExpectOutput(next, SimulatedOutput(std::vector<int32_t>{'x'}, 10));
  ExpectAllFree();
}

TEST_F(SchedulerTest, ACancelledRequestThatWaitsIsDequeued) {
  Reader reader = Ask(RandomPrompt(rng_, 30), 50);
  Tell(worker_.Connect());
  std::vector<Reader> others;
  others.reserve(8);
  for (int i = 0; i < 8; ++i) others.push_back(Ask({'x'}, 3));
  const int before = dequeued_;

  others.back().stream->Cancel();
  Look();

  ExpectEnd(others.back(), FailureReason::kCancelled);
  EXPECT_EQ(dequeued_, before + 1);
}

TEST_F(SchedulerTest, DeadlinesEndWhatRunsAndWhatWaits) {
  Tell(worker_.Connect());
  auto running = MakeRequest(RandomPrompt(rng_, 30), 200, now_);
  running->deadline = now_ + milliseconds(5);
  Reader first = Ask(std::move(running));
  for (int i = 0; i < 3; ++i) Ask({'x'}, 200);
  RunRound();
  auto waiting = MakeRequest({'y'}, 10, now_);
  waiting->deadline = now_ + milliseconds(3);
  Reader second = Ask(std::move(waiting));
  EXPECT_EQ(scheduler_.NextWakeup(), now_ + milliseconds(3));

  now_ += milliseconds(10);
  Look();

  ExpectEnd(first, FailureReason::kDeadline);
  ExpectEnd(second, FailureReason::kDeadline);
  EXPECT_EQ(scheduler_.status().audit, "");
  RunAll();
  ExpectAllFree();
}

TEST_F(SchedulerTest, ARequestThatCanNeverFitIsRefused) {
  Tell(worker_.Connect());

  Reader reader = Ask(RandomPrompt(rng_, 10), 600);

  ExpectEnd(reader, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(dequeued_, 1);
  ExpectAllFree();
}

TEST_F(SchedulerTest, ADrainingWorkerFinishesWhatRunsAndIsLetGo) {
  Tell(worker_.Connect());
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 30);
  Reader running = Ask(prompt, 20);
  Tell(WorkerDraining{worker_.epoch()});
  Reader waiting = Ask({'x'}, 5);
  EXPECT_EQ(worker_.closed(), 0u);

  RunAll();

  ExpectOutput(running, SimulatedOutput(prompt, 20));
  EXPECT_EQ(worker_.closed(), worker_.epoch());
  EXPECT_EQ(scheduler_.status().waiting, 1);
  Tell(worker_.Lose());
  Tell(worker_.Connect());
  RunAll();
  ExpectOutput(waiting, SimulatedOutput(std::vector<int32_t>{'x'}, 5));
  ExpectAllFree();
}

TEST_F(SchedulerTest, StoppingEndsEverything) {
  Tell(worker_.Connect());
  std::vector<Reader> readers;
  readers.reserve(8);
  for (int i = 0; i < 8; ++i) readers.push_back(Ask({'x'}, 50));

  Mail mail;
  mail.stopped = true;
  Handle(std::move(mail));

  for (Reader& reader : readers) {
    ExpectEnd(reader, FailureReason::kDraining);
  }
  ExpectAllFree();
}

TEST_F(ScarcePagesTest, TheLastToComeMakesRoomAndComesBack) {
  Tell(worker_.Connect());
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Reader> readers;
  for (int i = 0; i < 4; ++i) {
    prompts.push_back(RandomPrompt(rng_, 20));
    readers.push_back(Ask(prompts.back(), 150));
    now_ += milliseconds(1);
  }

  bool preempted = false;
  int most = 0;
  while (worker_.has_plan()) {
    RunRound();
    const SchedulerStatus status = scheduler_.status();
    ASSERT_EQ(status.audit, "");
    most = std::max(most, status.running);
    preempted = preempted || (most > status.running && status.waiting > 0);
  }

  EXPECT_TRUE(preempted);
  for (int i = 0; i < 4; ++i) {
    ExpectOutput(readers[i], SimulatedOutput(prompts[i], 150));
  }
  EXPECT_EQ(dequeued_, 4);
  ExpectAllFree();
}

}  // namespace
}  // namespace bole
