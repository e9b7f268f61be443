// A worker that is gone, late or wrong, and what becomes of its requests.
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::std::chrono::milliseconds;
using ::std::chrono::seconds;

TEST_F(SchedulerTest, ALostWorkersRequestsGoOnWithTheNextOne) {
  Tell(worker_.Connect());
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 100);
  Reader reader = Ask(prompt, 60);
  for (int i = 0; i < 5; ++i) RunRound();
  reader.Read();
  EXPECT_GT(reader.tokens.size(), 3u);

  Tell(worker_.Lose());
  EXPECT_FALSE(scheduler_.status().connected());
  EXPECT_EQ(scheduler_.status().waiting, 1);
  Tell(worker_.Connect());
  RunAll();

  ExpectOutput(reader, SimulatedOutput(prompt, 60));
  ExpectAllFree();
}

TEST_F(SchedulerTest, ARequestUnderTwoLostWorkersFails) {
  Tell(worker_.Connect());
  Reader reader = Ask(RandomPrompt(rng_, 100), 60);
  Tell(worker_.Lose());
  Tell(worker_.Connect());
  Tell(worker_.Lose());

  ExpectEnd(reader, FailureReason::kWorkersLost);
}

TEST_F(SchedulerTest, WaitingForALostWorkerHasAnEnd) {
  Tell(worker_.Connect());
  Reader reader = Ask(RandomPrompt(rng_, 100), 60);
  Tell(worker_.Lose());
  EXPECT_EQ(scheduler_.NextWakeup(), now_ + seconds(30));

  now_ += seconds(30);
  Look();

  ExpectEnd(reader, FailureReason::kNoWorker);
  EXPECT_TRUE(scheduler_.idle());
}

TEST_F(SchedulerTest, ARefusedPlanFailsItsRequestsAlone) {
  Tell(worker_.Connect());
  Reader reader = Ask(RandomPrompt(rng_, 30), 50);
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 30);
  Reader other = Ask(prompt, 50);

  WorkerOutcome outcome = worker_.Run();
  outcome.result = absl::InvalidArgumentError("a page is out of range");
  Tell(std::move(outcome));
  RunAll();

  ExpectEnd(reader, FailureReason::kWorkerFailed);
  ExpectOutput(other, SimulatedOutput(prompt, 50));
  ExpectAllFree();
}

TEST_F(SchedulerTest, AWorkerThatReturnsNonsenseIsLostByName) {
  Tell(worker_.Connect());
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 30);
  Reader reader = Ask(prompt, 50);

  WorkerOutcome outcome = worker_.Run();
  outcome.result->prefills[0].committed = 513;
  Tell(std::move(outcome));

  EXPECT_EQ(worker_.disconnected(),
            absl::InternalError(
                "the worker broke the protocol: its result of plan 1: prefill "
                "0: committed is 513; allowed is 30"));
  EXPECT_FALSE(scheduler_.status().connected());
  EXPECT_EQ(scheduler_.status().waiting, 1);
  // Its client tells as well that the connection ended.
  Tell(WorkerLost{worker_.epoch(), worker_.disconnected()});
  Tell(worker_.Connect());
  RunAll();
  ExpectOutput(reader, SimulatedOutput(prompt, 50));
  ExpectAllFree();
}

TEST_F(SchedulerTest, AnOutcomeOfAnotherPlanLosesTheWorker) {
  for (const uint64_t plan_number : {0, 1, 3}) {
    SCOPED_TRACE(plan_number);
    Tell(worker_.Connect());
    const std::vector<int32_t> prompt = RandomPrompt(rng_, 30);
    Reader reader = Ask(prompt, 50);
    RunRound();

    WorkerOutcome outcome = worker_.Run();
    EXPECT_EQ(outcome.plan_number, 2u);
    outcome.plan_number = plan_number;
    Tell(std::move(outcome));

    EXPECT_EQ(worker_.disconnected().message(),
              absl::StrCat("the worker broke the protocol: it answered plan ",
                           plan_number, ", awaited is plan 2"));
    Tell(worker_.Connect());
    RunAll();
    ExpectOutput(reader, SimulatedOutput(prompt, 50));
    ExpectAllFree();
  }
}

TEST_F(SchedulerTest, AnOutcomeThatNobodyAwaitsLosesTheWorker) {
  Tell(worker_.Connect());
  Reader reader = Ask(RandomPrompt(rng_, 30), 1);
  const WorkerOutcome outcome = worker_.Run();
  Tell(outcome);
  EXPECT_TRUE(worker_.disconnected().ok());

  Tell(outcome);

  EXPECT_EQ(worker_.disconnected().message(),
            "the worker broke the protocol: it answered plan 1, awaited is "
            "none");
  EXPECT_FALSE(scheduler_.status().connected());
  // Whatever else comes of a connection that was ended is not looked at.
  Tell(outcome);
  Tell(worker_.Connect());
  EXPECT_TRUE(scheduler_.status().connected());
}

TEST_F(SchedulerTest, AWorkerThatDoesNotAnswerInTimeIsLost) {
  Tell(worker_.Connect());
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 128);
  Reader reader = Ask(prompt, 50);
  // An eighth more for 128 tokens to prefill, of 1024.
  const TimePoint deadline = now_ + seconds(120) + seconds(15);
  EXPECT_EQ(scheduler_.NextWakeup(), deadline);

  now_ = deadline - milliseconds(1);
  Look();
  EXPECT_TRUE(scheduler_.status().connected());
  now_ = deadline;
  Look();

  EXPECT_TRUE(absl::IsDeadlineExceeded(worker_.disconnected()));
  EXPECT_EQ(worker_.disconnected().message(),
            "plan 1, round 0, with 128 prefill tokens and 0 decoding sequences "
            "was not answered in time, by a round timeout of 120000 ms");
  EXPECT_FALSE(scheduler_.status().connected());
  EXPECT_EQ(scheduler_.status().waiting, 1);
  Tell(worker_.Connect());
  RunRound();
  EXPECT_EQ(scheduler_.NextWakeup(), now_ + seconds(120));
  RunAll();
  ExpectOutput(reader, SimulatedOutput(prompt, 50));
  ExpectAllFree();
}

TEST_F(SchedulerTest, AWorkerThatAnswersNoPlanIsLostWithoutRequestsToo) {
  Tell(worker_.Connect());
  Reader reader = Ask(RandomPrompt(rng_, 10), 50);
  reader.stream->Cancel();
  Look();
  ExpectAllFree();

  now_ = scheduler_.NextWakeup();
  Look();

  EXPECT_TRUE(absl::IsDeadlineExceeded(worker_.disconnected()));
}

}  // namespace
}  // namespace bole
