#include "worker_service/loop/compute_loop.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "common/flight/flight_recorder.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_step.h"
#include "tests/worker_service/loop/held_engine.h"
#include "worker_service/loop/step_record.h"

namespace bole {
namespace {

using ::bole::testing::HeldEngine;
using ::bole::testing::InvalidPlan;
using ::bole::testing::NamedPlan;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::Watched;
using ::testing::HasSubstr;

class ComputeLoopTest : public ::testing::Test {
 protected:
  ComputeLoopTest()
      : loop_({.limits = RandomPlanLimits(),
               .has_drafter = false,
               .step =
                   [this](const StepPlan& p, const OnRound& on_round) {
                     return engine_.Step(p, on_round);
                   },
               .on_outcome =
                   [this](ComputeOutcome outcome) {
                     watched_.Change(
                         [&] { outcomes_.push_back(std::move(outcome)); });
                   },
               .flight = &flight_}) {}

  std::vector<ComputeOutcome> Await(size_t outcomes) {
    watched_.Await([&] { return outcomes_.size() >= outcomes; });
    std::vector<ComputeOutcome> copy;
    watched_.Change([&] { copy = outcomes_; });
    return copy;
  }

  FlightRecorder flight_{StepFields(), 16};
  HeldEngine engine_;
  Watched watched_;
  std::vector<ComputeOutcome> outcomes_;
  ComputeLoop loop_;
};

TEST_F(ComputeLoopTest, AnswersPlansInTheirOrder) {
  loop_.Open(7);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(loop_.Submit(7, i, NamedPlan(10 * i)), absl::OkStatus());
  }

  const std::vector<ComputeOutcome> outcomes = Await(3);

  for (int i = 1; i <= 3; ++i) {
    const ComputeOutcome& outcome = outcomes[i - 1];
    EXPECT_EQ(outcome.stream, 7u);
    EXPECT_EQ(outcome.sequence, static_cast<uint64_t>(i));
    ASSERT_EQ(outcome.result.status(), absl::OkStatus());
    EXPECT_EQ(outcome.result->prefills[0].committed, 10 * i);
    EXPECT_EQ(outcome.prefill_tokens, 1);
    EXPECT_EQ(outcome.nodes, 0);
  }
}

TEST_F(ComputeLoopTest, ThePlanThatRunsIsTheLastRecordOfItsFlight) {
  loop_.Open(7);
  ASSERT_EQ(loop_.Submit(7, 1, InvalidPlan()), absl::OkStatus());
  ASSERT_EQ(loop_.Submit(7, 2, NamedPlan(5)), absl::OkStatus());
  Await(2);
  engine_.Hold();
  ASSERT_EQ(loop_.Submit(7, 3, NamedPlan(6)), absl::OkStatus());
  engine_.AwaitBegun(2);

  const std::string lines = flight_.ToJsonLines();
  engine_.Release();
  Await(3);

  EXPECT_EQ(flight_.num_added(), 3u);
  const std::vector<std::string> rounds =
      absl::StrSplit(lines, '\n', absl::SkipEmpty());
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_THAT(rounds[0], HasSubstr("\"plan\":1,\"round\":0,"
                                   "\"outcome\":\"refused\""));
  EXPECT_THAT(rounds[1], HasSubstr("\"plan\":2,\"round\":0,"
                                   "\"outcome\":\"done\""));
  EXPECT_THAT(rounds[2], HasSubstr("\"plan\":3,\"round\":0,"
                                   "\"outcome\":\"running\""));
  EXPECT_THAT(rounds[2], HasSubstr("\"prefill_tokens\":1,"));
}

TEST_F(ComputeLoopTest, ARefusedPlanDoesNotReachTheEngine) {
  loop_.Open(1);
  ASSERT_EQ(loop_.Submit(1, 1, InvalidPlan()), absl::OkStatus());
  ASSERT_EQ(loop_.Submit(1, 2, NamedPlan(5)), absl::OkStatus());

  const std::vector<ComputeOutcome> outcomes = Await(2);

  EXPECT_EQ(outcomes[0].result.status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(outcomes[0].sequence, 1u);
  EXPECT_EQ(outcomes[1].result.status(), absl::OkStatus());
  EXPECT_EQ(engine_.begun(), 1);
}

TEST_F(ComputeLoopTest, RefusesToDraftWithoutADrafter) {
  StepPlan plan = NamedPlan(5);
  plan.draft = DraftShape{.top_k = 1, .depth = 1};
  loop_.Open(1);
  ASSERT_EQ(loop_.Submit(1, 1, plan), absl::OkStatus());

  const std::vector<ComputeOutcome> outcomes = Await(1);

  EXPECT_EQ(outcomes[0].result.status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_.begun(), 0);
}

TEST_F(ComputeLoopTest, NothingRunsAfterTheEngineFailed) {
  engine_.Hold();
  engine_.FailFromNowOn();
  loop_.Open(1);
  ASSERT_EQ(loop_.Submit(1, 1, NamedPlan(1)), absl::OkStatus());
  ASSERT_EQ(loop_.Submit(1, 2, NamedPlan(2)), absl::OkStatus());
  engine_.Release();

  const std::vector<ComputeOutcome> outcomes = Await(1);
  loop_.Stop();

  EXPECT_EQ(outcomes[0].result.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(outcomes[0].result.status().message())
                .find("the device is gone"),
            std::string::npos);
  EXPECT_EQ(Await(1).size(), 1u);
  EXPECT_EQ(engine_.begun(), 1);
}

TEST_F(ComputeLoopTest, ANewStreamWaitsForTheStepOfTheOldAndDropsItsPlans) {
  engine_.Hold();
  loop_.Open(1);
  ASSERT_EQ(loop_.Submit(1, 1, NamedPlan(1)), absl::OkStatus());
  engine_.AwaitBegun(1);
  ASSERT_EQ(loop_.Submit(1, 2, NamedPlan(2)), absl::OkStatus());
  loop_.Open(2);
  ASSERT_EQ(loop_.Submit(2, 1, NamedPlan(3)), absl::OkStatus());
  EXPECT_EQ(engine_.begun(), 1);
  engine_.Release();

  const std::vector<ComputeOutcome> outcomes = Await(2);
  loop_.Stop();

  EXPECT_EQ(outcomes[0].stream, 1u);
  EXPECT_EQ(outcomes[1].stream, 2u);
  EXPECT_EQ(outcomes[1].result->prefills[0].committed, 3);
  EXPECT_EQ(Await(2).size(), 2u);
}

TEST_F(ComputeLoopTest, PlansOfAStreamThatIsNotOpenAreDropped) {
  ASSERT_EQ(loop_.Submit(1, 1, NamedPlan(1)), absl::OkStatus());
  loop_.Open(2);
  ASSERT_EQ(loop_.Submit(1, 1, NamedPlan(2)), absl::OkStatus());
  loop_.Close(1);  // Not the one that is open.
  ASSERT_EQ(loop_.Submit(2, 1, NamedPlan(3)), absl::OkStatus());

  const std::vector<ComputeOutcome> outcomes = Await(1);
  loop_.Close(2);
  ASSERT_EQ(loop_.Submit(2, 2, NamedPlan(4)), absl::OkStatus());
  loop_.Stop();

  EXPECT_EQ(outcomes[0].result->prefills[0].committed, 3);
  EXPECT_EQ(engine_.begun(), 1);
}

TEST_F(ComputeLoopTest, RefusesToQueueWithoutEnd) {
  engine_.Hold();
  loop_.Open(1);
  ASSERT_EQ(loop_.Submit(1, 1, NamedPlan(1)), absl::OkStatus());
  engine_.AwaitBegun(1);
  uint64_t sequence = 2;
  for (; sequence < 2 + ComputeLoop::kMaxWaiting; ++sequence) {
    ASSERT_EQ(loop_.Submit(1, sequence, NamedPlan(1)), absl::OkStatus());
  }

  const absl::Status status = loop_.Submit(1, sequence, NamedPlan(1));

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  engine_.Release();
  Await(1 + ComputeLoop::kMaxWaiting);
}

TEST_F(ComputeLoopTest, StopFinishesTheStepThatRunsAndNoOther) {
  engine_.Hold();
  loop_.Open(1);
  ASSERT_EQ(loop_.Submit(1, 1, NamedPlan(1)), absl::OkStatus());
  ASSERT_EQ(loop_.Submit(1, 2, NamedPlan(2)), absl::OkStatus());
  engine_.AwaitBegun(1);
  std::thread stopper([this] { loop_.Stop(); });
  engine_.Release();
  stopper.join();

  EXPECT_GE(Await(1).size(), 1u);
  const int begun = engine_.begun();
  ASSERT_EQ(loop_.Submit(1, 3, NamedPlan(3)), absl::OkStatus());
  loop_.Stop();
  EXPECT_EQ(engine_.begun(), begun);
}

TEST_F(ComputeLoopTest, ReportsAStepThatHangsOnceAndOnAnotherThread) {
  std::vector<absl::Status> hangs;
  std::thread::id reporter;
  ComputeLoop loop({.limits = RandomPlanLimits(),
                    .step =
                        [this](const StepPlan& p, const OnRound& on_round) {
                          return engine_.Step(p, on_round);
                        },
                    .on_outcome =
                        [this](ComputeOutcome outcome) {
                          watched_.Change(
                              [&] { outcomes_.push_back(std::move(outcome)); });
                        },
                    .step_timeout = std::chrono::milliseconds(20),
                    .on_hang =
                        [&](const absl::Status& why) {
                          watched_.Change([&] {
                            reporter = std::this_thread::get_id();
                            hangs.push_back(why);
                          });
                        }});
  engine_.Hold();
  loop.Open(3);
  ASSERT_EQ(loop.Submit(3, 1, NamedPlan(1)), absl::OkStatus());

  watched_.Await([&] { return !hangs.empty(); });
  EXPECT_EQ(hangs[0].code(), absl::StatusCode::kInternal);
  EXPECT_EQ(hangs[0].message().find("plan 1 of stream 3 (1 prefill chunk"), 0u)
      << hangs[0];
  engine_.Release();  // It was only slow.
  Await(1);
  loop.Stop();

  EXPECT_EQ(hangs.size(), 1u);
  EXPECT_NE(reporter, std::this_thread::get_id());
}

// Schedulers take the worker over from each other while plans run.
TEST_F(ComputeLoopTest, StreamsOfManyThreadsNeverMix) {
  constexpr int kThreads = 4;
  constexpr int kStreamsEach = 50;
  std::atomic<uint64_t> next_stream{1};
  std::vector<std::thread> schedulers;
  schedulers.reserve(kThreads);
  const auto run_stream = [&] {
    const uint64_t stream = next_stream++;
    loop_.Open(stream);
    for (uint64_t s = 1; s <= 3; ++s) {
      const absl::Status status = loop_.Submit(stream, s, NamedPlan(1));
      EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status));
    }
    if (stream % 2 == 0) loop_.Close(stream);
  };
  for (int t = 0; t < kThreads; ++t) {
    schedulers.emplace_back([&] {
      for (int i = 0; i < kStreamsEach; ++i) run_stream();
    });
  }
  for (std::thread& scheduler : schedulers) scheduler.join();
  loop_.Stop();

  // Within an stream sequences ascend.
  std::vector<uint64_t> last(next_stream, 0);
  for (const ComputeOutcome& outcome : outcomes_) {
    EXPECT_LT(last[outcome.stream], outcome.sequence);
    last[outcome.stream] = outcome.sequence;
  }
}

}  // namespace
}  // namespace bole
