// A scheduler with a simulated worker, for tests.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_SCHEDULER_FIXTURE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_SCHEDULER_FIXTURE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "scheduler_service/metrics.h"
#include "scheduler_service/scheduler.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole::testing {

inline SchedulerOptions TreeOptions() {
  SchedulerOptions options;
  options.speculation = {.mode = SpeculationMode::kTree,
                         .shape = {.top_k = 3, .depth = 4},
                         .nodes = 8};
  return options;
}

// With a clock that the test moves.
class SchedulerTest : public ::testing::Test {
 protected:
  explicit SchedulerTest(
      const SchedulerOptions& options = TreeOptions(),
      const StepLimits& limits = SimulatedWorker::SmallLimits())
      : worker_(limits),
        scheduler_(options, *tokenizer_, metrics_, worker_,
                   [this](const Request&) { ++dequeued_; }) {}

  void Tell(WorkerEvent event) {
    Mail mail;
    mail.events.push_back(std::move(event));
    scheduler_.Handle(std::move(mail), now_);
  }

  Reader Ask(std::unique_ptr<Request> request) {
    Reader reader{.stream = request->stream};
    Mail mail;
    mail.requests.push_back(std::move(request));
    scheduler_.Handle(std::move(mail), now_);
    return reader;
  }
  Reader Ask(std::vector<int32_t> prompt, int max_tokens) {
    return Ask(MakeRequest(std::move(prompt), max_tokens, now_));
  }

  void RunRound() {
    now_ += std::chrono::milliseconds(1);
    Tell(worker_.Run());
  }
  void RunAll() {
    while (worker_.has_plan()) RunRound();
  }
  void Look() { scheduler_.Handle({}, now_); }

  void ExpectAllFree() {
    const SchedulerStatus status = scheduler_.status();
    EXPECT_EQ(status.audit, "");
    EXPECT_EQ(status.running, 0);
    EXPECT_EQ(status.waiting, 0);
    EXPECT_EQ(status.slots.free, status.slots.total);
    EXPECT_EQ(status.pages.free, status.pages.total);
  }

  static void ExpectOutput(Reader& reader, const std::vector<int32_t>& want) {
    reader.Read();
    EXPECT_EQ(reader.tokens, want);
    EXPECT_EQ(reader.text, std::string(want.begin(), want.end()));
    ASSERT_TRUE(reader.end.has_value());
    EXPECT_TRUE(reader.end->ok()) << reader.end->status();
  }
  static void ExpectEnd(Reader& reader, absl::StatusCode code) {
    reader.Read();
    ASSERT_TRUE(reader.end.has_value());
    EXPECT_EQ(reader.end->status().code(), code) << reader.end->status();
  }

  std::mt19937 rng_{1};
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  Metrics metrics_;
  SimulatedWorker worker_;
  int dequeued_ = 0;
  Scheduler scheduler_;
};

// Pages for two full requests, and slots for four.
class ScarcePagesTest : public SchedulerTest {
 protected:
  static StepLimits Limits(int max_lease_rounds) {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.num_pages = 16;
    limits.max_lease_rounds = max_lease_rounds;
    return limits;
  }
  explicit ScarcePagesTest(int max_lease_rounds = 1)
      : SchedulerTest(TreeOptions(), Limits(max_lease_rounds)) {}
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_SCHEDULER_FIXTURE_H_
