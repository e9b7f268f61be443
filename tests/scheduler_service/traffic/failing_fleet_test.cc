// Traffic of every kind over workers that fail in every way, come and go, in
// virtual time.
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scheduler_service/jobs/token_stream.h"
#include "tests/scheduler_service/scrape.h"
#include "tests/scheduler_service/traffic/traffic.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/virtual_fleet.h"
#include "tests/testing/exhaustive.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::simulation::Answer;
using ::bole::simulation::FaultKind;
using ::bole::simulation::Question;
using ::bole::simulation::VirtualFleet;
using ::bole::testing::After;
using ::bole::testing::Letters;
using ::bole::testing::UniformInt;
using ::std::chrono::milliseconds;

constexpr int kWorkers = 5;
constexpr char kCosts[] = R"({"terms": [
  {"name": "forward", "axes": [["rows", [1, 64]]],
   "microseconds": [4000, 12000]},
  {"name": "prefill", "axes": [["prefill_tokens", [1, 256]]],
   "microseconds": [1000, 8000]}]})";

simulation::VirtualWorkerOptions Worker(int index, int seed) {
  simulation::VirtualWorkerOptions worker = {
      // Pages for a third of what all slots could use.
      .engine = {.limits = {.max_requests = 8,
                            .max_nodes = 80,
                            .max_nodes_per_tree = 16,
                            .max_prefill_tokens = 256,
                            .max_draft = {.top_k = 3, .depth = 4},
                            .num_slots = 8,
                            .num_pages = 80,
                            .page_size = 16,
                            .max_context = 512,
                            .vocabulary = 256,
                            .max_lease_rounds = index % 2 == 0 ? 3 : 1},
                 .text = simulation::LetterText(),
                 .accept = {0.8, 0.7}},
      .costs = *StepCosts::Parse(kCosts),
      .speed = index == 0 ? 0.5 : 1,
      .faults = {},
      .restart = milliseconds(400)};
  // Each has a seed of its own, so that they do not come in the same rounds.
  int stream = 100 * seed + 10 * index;
  for (const char* fault :
       {"crash:random=0.0010,", "hang:random=0.0005,", "garbage:random=0.0010,",
        "slow:20:random=0.004,"}) {
    worker.faults.push_back(
        *simulation::ParseFault(absl::StrCat(fault, stream++)));
  }
  return worker;
}

simulation::VirtualFleetOptions Options(int seed) {
  simulation::VirtualFleetOptions options;
  options.audit = true;
  options.scheduler.speculation = {.mode = SpeculationMode::kTree,
                                   .shape = {.top_k = 3, .depth = 4},
                                   .nodes = 8};
  options.scheduler.round_timeout = milliseconds(1000);
  options.scheduler.admission.max_requests = 100;
  for (int i = 0; i < kWorkers; ++i) {
    options.workers.push_back(Worker(i, seed));
  }
  return options;
}

class FailingFleet {
 public:
  explicit FailingFleet(int seed) : rng_(seed), fleet_(Options(seed)) {}

  void Run(double seconds) {
    start_ = fleet_.now();
    end_ = After(start_, seconds);
    ScheduleRequest();
    ScheduleChange();
    while (fleet_.now() < end_ && IsFine()) {
      fleet_.RunUntil(After(fleet_.now(), 1));
    }
    for (int i = 0; i < kWorkers; ++i) fleet_.Add(i);
    fleet_.RunUntilIdle(After(fleet_.now(), 120));
    EXPECT_EQ(fleet_.num_open(), 0);
    EXPECT_TRUE(fleet_.scheduler().idle());
    const SchedulerStatus status = fleet_.scheduler().status();
    EXPECT_EQ(status.slots.free, status.slots.total);
    EXPECT_EQ(status.pages.free, status.pages.total);
  }

  bool IsFine() {
    EXPECT_EQ(fleet_.problem(), "");
    EXPECT_EQ(num_wrong_texts_, 0);
    return !::testing::Test::HasFailure();
  }

  // Every kind of fault and of end must have been there.
  void ExpectAllKinds() {
    for (int kind = 0; kind < simulation::kNumFaultKinds; ++kind) {
      EXPECT_GT(NumFaults(kind), 0) << kind;
    }
    EXPECT_GT(ends_[absl::StatusCode::kOk], asked_ / 2);
    EXPECT_GT(ends_[absl::StatusCode::kCancelled], 0);
    EXPECT_GT(ends_[absl::StatusCode::kDeadlineExceeded], 0);
    // A request is given up when a third worker is lost under it, or when all
    // of them stay away for half a minute.
    EXPECT_LE(ends_[absl::StatusCode::kUnavailable], asked_ / 500);
    EXPECT_EQ(ends_[absl::StatusCode::kInternal], 0);
    EXPECT_EQ(ends_[absl::StatusCode::kInvalidArgument], 0);
    EXPECT_GT(Migrations("preempted"), 0);
    EXPECT_GT(Migrations("evicted"), 0);
    EXPECT_GT(Migrations("lost"), 0);
    EXPECT_GT(Migrations("drained"), 0);
  }

  void Print(double seconds) {
    std::printf(
        "{\"bench\": \"failing fleet\", \"virtual_seconds\": %.0f, "
        "\"rounds\": %lld, \"turns_audited\": %lld, \"requests\": %d, "
        "\"refused\": %d, \"ok\": %d, \"cancelled\": %d, \"deadline\": %d, "
        "\"unavailable\": %d, \"wrong_texts\": %d, \"crashes\": %lld, "
        "\"hangs\": %lld, \"garbage\": %lld, \"slow\": %lld, \"joined\": %d, "
        "\"left\": %d, \"lost\": %.0f, \"evicted\": %.0f, "
        "\"preempted\": %.0f, \"drained\": %.0f}\n",
        seconds, static_cast<long long>(fleet_.num_rounds()),
        static_cast<long long>(fleet_.num_turns()), asked_, refused_,
        ends_[absl::StatusCode::kOk], ends_[absl::StatusCode::kCancelled],
        ends_[absl::StatusCode::kDeadlineExceeded],
        ends_[absl::StatusCode::kUnavailable], num_wrong_texts_,
        static_cast<long long>(NumFaults(static_cast<int>(FaultKind::kCrash))),
        static_cast<long long>(NumFaults(static_cast<int>(FaultKind::kHang))),
        static_cast<long long>(
            NumFaults(static_cast<int>(FaultKind::kGarbage))),
        static_cast<long long>(NumFaults(static_cast<int>(FaultKind::kSlow))),
        joined_, left_, Migrations("lost"), Migrations("evicted"),
        Migrations("preempted"), Migrations("drained"));
  }

 private:
  void ScheduleRequest() {
    // Workers idle and lend rounds for ten seconds, then queues are full.
    const bool busy =
        std::chrono::duration_cast<std::chrono::seconds>(fleet_.now() - start_)
                .count() /
            10 % 2 ==
        1;
    std::exponential_distribution<double> gap(busy ? 100 : 20);
    fleet_.At(After(fleet_.now(), gap(rng_)), [this] {
      if (fleet_.now() >= end_) return;
      Ask();
      ScheduleRequest();
    });
  }

  void Ask() {
    // One tenant asks for most.
    Question question{
        .tenant = absl::StrCat(std::max(0, UniformInt(rng_, -6, 3))),
        .priority = UniformInt(rng_, 0, 2),
        .prompt = Letters(rng_, UniformInt(rng_, 1, 260)),
        .max_tokens = UniformInt(rng_, 1, 120)};
    if (UniformInt(rng_, 0, 9) == 0) {
      question.deadline =
          fleet_.now() + milliseconds(UniformInt(rng_, 0, 1500));
    }
    ++asked_;
    const std::shared_ptr<TokenStream> stream =
        fleet_.Ask(std::move(question), [this](const Answer& answer) {
          ++ends_[answer.status.code()];
          num_wrong_texts_ += answer.is_right ? 0 : 1;
        });
    if (stream == nullptr) {
      ++refused_;
    } else if (UniformInt(rng_, 0, 9) == 0) {
      fleet_.At(fleet_.now() + milliseconds(UniformInt(rng_, 0, 1500)),
                [stream] { stream->Cancel(); });
    }
  }

  // A worker drains and goes, is removed and goes when it fails, or comes back.
  void ScheduleChange() {
    fleet_.At(fleet_.now() + milliseconds(UniformInt(rng_, 100, 2500)), [this] {
      if (fleet_.now() >= end_) return;
      const int worker = UniformInt(rng_, 0, kWorkers - 1);
      if (UniformInt(rng_, 0, 2) > 0) {
        fleet_.Add(worker);
        ++joined_;
      } else {
        fleet_.Remove(worker);
        if (UniformInt(rng_, 0, 2) > 0) fleet_.worker(worker).Drain();
        ++left_;
      }
      ScheduleChange();
    });
  }

  int64_t NumFaults(int kind) {
    int64_t faults = 0;
    for (int i = 0; i < kWorkers; ++i) {
      faults += fleet_.worker(i).num_faults()[kind];
    }
    return faults;
  }
  double Migrations(const std::string& reason) {
    return testing::Scrape(*fleet_.metrics().registry())
        .at(absl::StrCat("bole_migrations_total{reason=\"", reason, "\"}"));
  }

  std::mt19937 rng_;
  VirtualFleet fleet_;
  TimePoint start_;
  TimePoint end_;
  std::map<absl::StatusCode, int> ends_;
  int num_wrong_texts_ = 0;
  int asked_ = 0;
  int refused_ = 0;
  int joined_ = 0;
  int left_ = 0;
};

TEST(FailingFleetTest, NothingIsLostRepeatedOrLeaked) {
  const int seeds = testing::Exhaustive() ? 6 : 1;
  const double seconds = testing::Exhaustive() ? 600 : 60;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    FailingFleet fleet(seed);
    fleet.Run(seconds);
    fleet.Print(seconds);
    ASSERT_TRUE(fleet.IsFine());
    fleet.ExpectAllKinds();
  }
}

}  // namespace
}  // namespace bole
