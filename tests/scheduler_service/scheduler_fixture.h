// Schedulers with simulated workers, for tests.
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
#include "common/ids.h"
#include "gtest/gtest.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/scheduler.h"
#include "scheduler_service/watch/metrics.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/catalogs.h"
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

// A scheduler with workers that have equal limits, and a clock that the test
// moves.
class FleetTest : public ::testing::Test {
 protected:
  explicit FleetTest(int num_workers,
                     const SchedulerOptions& options = TreeOptions(),
                     const StepLimits& limits = SimulatedWorker::SmallLimits())
      : workers_(MakeWorkers(num_workers, limits)),
        scheduler_(
            options, catalog_, metrics_,
            [this](const Request&, bool /*runs*/) { ++dequeued_; },
            [this](WorkerId worker) {
              gone_.push_back(worker);
              return true;
            }) {
    for (size_t i = 0; i < workers_.size(); ++i) Add(static_cast<int>(i));
  }

  void Handle(Mail mail) {
    mail.cancelled = std::exchange(cancelled_, {});
    scheduler_.Handle(std::move(mail), now_);
  }
  void Look() { Handle({}); }
  void Tell(int worker, WorkerNews news) {
    Mail mail;
    mail.events.push_back(
        {.worker = WorkerId(worker), .news = std::move(news)});
    Handle(std::move(mail));
  }
  void Add(int worker) {
    Tell(worker, WorkerAdded{.name = "simulated " + std::to_string(worker),
                             .client = workers_[worker].get()});
  }
  void Connect(int worker) { Tell(worker, workers_[worker]->Connect()); }
  void ConnectAll() {
    for (size_t i = 0; i < workers_.size(); ++i) Connect(static_cast<int>(i));
  }
  void Lose(int worker) { Tell(worker, workers_[worker]->Lose()); }

  Reader Ask(std::unique_ptr<Request> request) {
    Reader reader{.stream = request->stream};
    request->stream->SetCancelHook(
        [this, job = *request->job] { cancelled_.push_back(job); });
    Mail mail;
    mail.requests.push_back(std::move(request));
    Handle(std::move(mail));
    return reader;
  }
  Reader Ask(std::vector<int32_t> prompt, int max_tokens) {
    return Ask(MakeRequest(std::move(prompt), max_tokens, now_));
  }

  void RunRound(int worker) {
    now_ += std::chrono::milliseconds(1);
    Tell(worker, workers_[worker]->Run());
  }
  // Round by round, in turn, until no worker has a plan.
  void RunAll() {
    for (bool any = true; any;) {
      any = false;
      for (size_t i = 0; i < workers_.size(); ++i) {
        if (!workers_[i]->has_plan()) continue;
        any = true;
        RunRound(static_cast<int>(i));
      }
    }
  }

  void ExpectAllFree() {
    const SchedulerStatus status = scheduler_.status();
    EXPECT_EQ(status.audit, "");
    EXPECT_EQ(status.running, 0);
    EXPECT_EQ(status.waiting, 0);
    EXPECT_TRUE(scheduler_.idle());
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

  // As above, and for that reason.
  static void ExpectEnd(Reader& reader, FailureReason reason) {
    reader.Read();
    ASSERT_TRUE(reader.end.has_value());
    EXPECT_EQ(FailureReasonOf(reader.end->status()), reason)
        << reader.end->status();
  }

  std::mt19937 rng_{1};
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  const ModelCatalog catalog_ = TinyCatalog({"simulated", "second"});
  Metrics metrics_;
  const std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  std::vector<JobId> cancelled_;  // Not told yet.
  int dequeued_ = 0;
  std::vector<WorkerId> gone_;
  Scheduler scheduler_;

 private:
  static std::vector<std::unique_ptr<SimulatedWorker>> MakeWorkers(
      int num_workers, const StepLimits& limits) {
    std::vector<std::unique_ptr<SimulatedWorker>> workers(num_workers);
    for (auto& worker : workers) {
      worker = std::make_unique<SimulatedWorker>(limits);
    }
    return workers;
  }
};

// With one worker.
class SchedulerTest : public FleetTest {
 protected:
  explicit SchedulerTest(
      const SchedulerOptions& options = TreeOptions(),
      const StepLimits& limits = SimulatedWorker::SmallLimits())
      : FleetTest(/*num_workers=*/1, options, limits), worker_(*workers_[0]) {}

  void Tell(WorkerNews news) { FleetTest::Tell(0, std::move(news)); }
  void RunRound() { FleetTest::RunRound(0); }

  SimulatedWorker& worker_;
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
