// Conversations over workers with prefix caches, roomy and narrow ones, that
// fail in every way, come and go, in virtual time. The simulated engines read
// every token from where a plan says it is: whatever is wrong in a slot, a page
// or a copy is blamed, or gives another text.
#include <chrono>
#include <cstdint>
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
using ::bole::simulation::Question;
using ::bole::simulation::VirtualFleet;
using ::bole::testing::After;
using ::bole::testing::Letters;
using ::bole::testing::UniformInt;
using ::std::chrono::milliseconds;

constexpr int kWorkers = 4;
constexpr int kLongestPrompt = 800;
constexpr char kCosts[] = R"({"terms": [
  {"name": "forward", "axes": [["rows", [1, 64]]],
   "microseconds": [4000, 12000]},
  {"name": "prefill", "axes": [["prefill_tokens", [1, 256]]],
   "microseconds": [1000, 8000]}]})";

// The first two have room for many conversations, the others for a few beside
// the requests that run.
simulation::VirtualWorkerOptions Worker(int index, int seed) {
  const bool is_narrow = index >= kWorkers / 2;
  simulation::VirtualWorkerOptions worker = {
      .engine = {.limits = {.max_requests = 6,
                            .max_nodes = 60,
                            .max_nodes_per_tree = 16,
                            .max_prefill_tokens = 256,
                            .max_draft = {.top_k = 3, .depth = 4},
                            .num_slots = is_narrow ? 9 : 40,
                            .num_pages = is_narrow ? 160 : 1000,
                            .page_size = 16,
                            .max_context = 1024,
                            .vocabulary = 256,
                            .max_lease_rounds = index % 2 == 0 ? 3 : 1},
                 .text = simulation::LetterText(),
                 .accept = {0.8, 0.7}},
      .costs = *StepCosts::Parse(kCosts),
      .speed = 1,
      .faults = {},
      .restart = milliseconds(400),
      // It copies slots and pages.
      .is_calibrated = true};
  int stream = 100 * seed + 10 * index;
  for (const char* fault :
       {"crash:random=0.0004,", "hang:random=0.0002,", "garbage:random=0.0004,",
        "slow:20:random=0.002,"}) {
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

class CacheTraffic {
 public:
  explicit CacheTraffic(int seed) : rng_(seed), fleet_(Options(seed)) {
    for (std::vector<int32_t>& system : systems_) {
      system = Letters(rng_, UniformInt(rng_, 70, 300));
    }
  }

  void Run(double seconds) {
    end_ = After(fleet_.now(), seconds);
    ScheduleConversation();
    ScheduleChange();
    while (fleet_.now() < end_ && IsFine()) {
      fleet_.RunUntil(After(fleet_.now(), 1));
    }
    for (int i = 0; i < kWorkers; ++i) fleet_.Add(i);
    fleet_.RunUntilIdle(After(fleet_.now(), 120));
    EXPECT_EQ(fleet_.num_open(), 0);
    EXPECT_TRUE(fleet_.scheduler().idle());
    // What the caches have is free for who needs it.
    const SchedulerStatus status = fleet_.scheduler().status();
    EXPECT_EQ(status.slots.free, status.slots.total);
    EXPECT_EQ(status.pages.free, status.pages.total);
  }

  bool IsFine() {
    EXPECT_EQ(fleet_.problem(), "");
    EXPECT_EQ(num_wrong_texts_, 0);
    return !::testing::Test::HasFailure();
  }

  // Every way to find something or nothing, to leave and to fail was there.
  void ExpectAllKinds() {
    for (const char* reason : {"cold", "below_granularity", "evicted",
                               "no_checkpoint", "salt", "other_worker"}) {
      EXPECT_GT(Misses(reason), 0) << reason;
    }
    EXPECT_GT(ShareFound(), 0.25);
    for (int kind = 0; kind < simulation::kNumFaultKinds; ++kind) {
      EXPECT_GT(NumFaults(kind), 0) << kind;
    }
    for (const char* reason : {"preempted", "lost", "drained"}) {
      EXPECT_GT(Migrations(reason), 0) << reason;
    }
    EXPECT_GT(ends_[absl::StatusCode::kOk], asked_ / 2);
    EXPECT_GT(ends_[absl::StatusCode::kCancelled], 0);
    EXPECT_EQ(ends_[absl::StatusCode::kInternal], 0);
    EXPECT_EQ(ends_[absl::StatusCode::kInvalidArgument], 0);
  }

  void Print(double seconds) {
    std::printf(
        "{\"bench\": \"cache traffic\", \"virtual_seconds\": %.0f, "
        "\"rounds\": %lld, \"turns_audited\": %lld, \"requests\": %d, "
        "\"ok\": %d, \"refused\": %d, \"wrong_texts\": %d, "
        "\"share_found\": %.3f",
        seconds, static_cast<long long>(fleet_.num_rounds()),
        static_cast<long long>(fleet_.num_turns()), asked_,
        ends_[absl::StatusCode::kOk], refused_, num_wrong_texts_, ShareFound());
    for (const char* reason : {"cold", "below_granularity", "evicted",
                               "no_checkpoint", "salt", "other_worker"}) {
      std::printf(", \"%s\": %.0f", reason, Misses(reason));
    }
    for (const char* reason : {"preempted", "evicted", "lost", "drained"}) {
      std::printf(", \"jobs_%s\": %.0f", reason, Migrations(reason));
    }
    std::printf("}\n");
  }

 private:
  struct Conversation {
    std::string tenant;
    std::string salt;
    int priority;
    int turns_left;
    std::vector<int32_t> text;  // All that was said.
  };

  void ScheduleConversation() {
    std::exponential_distribution<double> gap(8);
    fleet_.At(After(fleet_.now(), gap(rng_)), [this] {
      if (fleet_.now() >= end_) return;
      auto made = std::make_shared<Conversation>(Conversation{
          // One tenant has most of them.
          .tenant = absl::StrCat(std::max(0, UniformInt(rng_, -4, 2))),
          .salt = UniformInt(rng_, 0, 4) == 0 ? "salt" : "",
          .priority = UniformInt(rng_, 0, 2),
          .turns_left = UniformInt(rng_, 1, 6),
          .text = {}});
      const int system = UniformInt(rng_, 0, kSystems);
      if (system < kSystems) made->text = systems_[system];
      TakeTurn(made);
      ScheduleConversation();
    });
  }

  // Asks the next question, for one answer or several.
  void TakeTurn(const std::shared_ptr<Conversation>& of) {
    if (fleet_.now() >= end_ || of->turns_left-- == 0) return;
    const std::vector<int32_t> said =
        Letters(rng_, UniformInt(rng_, 1, UniformInt(rng_, 1, 250)));
    of->text.insert(of->text.end(), said.begin(), said.end());
    if (of->text.size() > kLongestPrompt) return;
    const int num_choices = UniformInt(rng_, 0, 5) == 0 ? 3 : 1;
    for (int i = 0; i < num_choices; ++i) Ask(of, /*goes_on=*/i == 0);
  }

  void Ask(const std::shared_ptr<Conversation>& of, bool goes_on) {
    Question question{.tenant = of->tenant,
                      .cache_salt = of->salt,
                      .priority = of->priority,
                      .prompt = of->text,
                      .max_tokens = UniformInt(rng_, 1, 120)};
    if (UniformInt(rng_, 0, 15) == 0) {
      question.deadline =
          fleet_.now() + milliseconds(UniformInt(rng_, 0, 1500));
    }
    ++asked_;
    const std::shared_ptr<TokenStream> stream =
        fleet_.Ask(std::move(question), [=, this](const Answer& answer) {
          ++ends_[answer.status.code()];
          num_wrong_texts_ += answer.is_right ? 0 : 1;
          if (goes_on) GoOn(of, answer.tokens);
        });
    if (stream == nullptr) {
      ++refused_;
    } else if (UniformInt(rng_, 0, 9) == 0) {
      fleet_.At(fleet_.now() + milliseconds(UniformInt(rng_, 0, 800)),
                [stream] { stream->Cancel(); });
    }
  }

  // After a while, with what was answered: a part, if it was cancelled.
  void GoOn(const std::shared_ptr<Conversation>& of,
            const std::vector<int32_t>& answer) {
    of->text.insert(of->text.end(), answer.begin(), answer.end());
    std::exponential_distribution<double> think(0.7);
    fleet_.At(After(fleet_.now(), think(rng_)), [=, this] { TakeTurn(of); });
  }

  // A worker drains and goes, is removed and goes when it fails, or comes back.
  void ScheduleChange() {
    fleet_.At(fleet_.now() + milliseconds(UniformInt(rng_, 500, 6000)), [this] {
      if (fleet_.now() >= end_) return;
      const int worker = UniformInt(rng_, 0, kWorkers - 1);
      if (UniformInt(rng_, 0, 2) > 0) {
        fleet_.Add(worker);
      } else {
        fleet_.Remove(worker);
        if (UniformInt(rng_, 0, 2) > 0) fleet_.worker(worker).Drain();
      }
      ScheduleChange();
    });
  }

  double Value(const std::string& series) {
    return testing::Scrape(*fleet_.metrics().registry()).at(series);
  }
  double Misses(const std::string& reason) {
    return Value(absl::StrCat("bole_prefix_cache_misses_total{reason=\"",
                              reason, "\"}"));
  }
  double Migrations(const std::string& reason) {
    return Value(
        absl::StrCat("bole_migrations_total{reason=\"", reason, "\"}"));
  }
  double ShareFound() {
    return Value("bole_prefix_cache_hits_tokens_total") /
           Value("bole_prefix_cache_queries_tokens_total");
  }
  int64_t NumFaults(int kind) {
    int64_t faults = 0;
    for (int i = 0; i < kWorkers; ++i) {
      faults += fleet_.worker(i).num_faults()[kind];
    }
    return faults;
  }

  static constexpr int kSystems = 3;

  std::mt19937 rng_;
  VirtualFleet fleet_;
  std::vector<int32_t> systems_[kSystems];  // What many begin with.
  TimePoint end_;
  std::map<absl::StatusCode, int> ends_;
  int num_wrong_texts_ = 0;
  int asked_ = 0;
  int refused_ = 0;
};

TEST(CacheTrafficTest, NothingWrongIsReadAndNothingLeaks) {
  const int seeds = testing::Exhaustive() ? 6 : 1;
  const double seconds = testing::Exhaustive() ? 600 : 60;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    CacheTraffic traffic(seed);
    traffic.Run(seconds);
    traffic.Print(seconds);
    ASSERT_TRUE(traffic.IsFine());
    traffic.ExpectAllKinds();
  }
}

}  // namespace
}  // namespace bole
