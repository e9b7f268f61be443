// Why requests find nothing in a prefix cache, as metrics say it, and what jobs
// run again that leave a worker and come back, or go to another one.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/scrape.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using testing::MakeRequest;
using testing::Reader;
using testing::SimulatedOutput;
using testing::SimulatedWorker;

using Tokens = std::vector<int32_t>;

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tokens FirstOf(const Tokens& tokens, int count) {
  return {tokens.begin(), tokens.begin() + count};
}

constexpr int kFillerPrompt = 100;
constexpr int kFillerTokens = 200;

// Two workers with a cache, of which the first one is there.
class SchedulerMissesTest : public testing::FleetTest {
 protected:
  SchedulerMissesTest() : FleetTest(/*num_workers=*/2, Options(), Limits()) {
    for (const auto& worker : workers_) worker->set_copies(true);
    Connect(0);
  }

  static SchedulerOptions Options() {
    SchedulerOptions options = testing::TreeOptions();
    options.max_running = 4;  // On each.
    return options;
  }
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.num_slots = 9;
    limits.num_pages = 200;
    limits.max_context = 1024;
    return limits;
  }

  Tokens Prompt(int length) { return testing::RandomPrompt(rng_, length); }
  Reader AskAs(const std::string& tenant, const Tokens& prompt, int num_tokens,
               const std::string& salt = "") {
    auto request = MakeRequest(prompt, num_tokens, now_);
    request->tenant = tenant;
    request->cache_salt = salt;
    return Ask(std::move(request));
  }
  // Runs rounds of the worker, and returns how many tokens they prefilled.
  int PrefilledOn(int worker, int num_rounds) {
    int tokens = 0;
    for (int i = 0; i < num_rounds && workers_[worker]->has_plan(); ++i) {
      for (const PrefillPlan& chunk : workers_[worker]->next_plan().prefills) {
        tokens += static_cast<int>(chunk.tokens.size());
      }
      RunRound(worker);
      EXPECT_EQ(scheduler_.status().audit, "");
    }
    return tokens;
  }
  struct Running {
    Tokens prompt;
    Reader reader;
  };
  // Takes all places of the worker.
  std::vector<Running> Fill(int worker) {
    std::vector<Running> running;
    for (int i = 0; i < 4; ++i) {
      const Tokens prompt = Prompt(kFillerPrompt);
      running.push_back({prompt, AskAs("flood", prompt, kFillerTokens)});
      RunRound(worker);
    }
    EXPECT_EQ(scheduler_.status().workers[worker].running, 4);
    return running;
  }
  static void ExpectWhole(std::vector<Running>& all) {
    for (Running& one : all) {
      ExpectOutput(one.reader, SimulatedOutput(one.prompt, kFillerTokens));
    }
  }
  double Value(const std::string& series) {
    return testing::Scrape(*metrics_.registry()).at(series);
  }
  // Every reason that was counted since the last call.
  std::map<std::string, int> NewMisses() {
    std::map<std::string, int> fresh;
    for (const char* reason : {"cold", "below_granularity", "evicted",
                               "no_checkpoint", "salt", "other_worker"}) {
      const double now = Value(absl::StrCat(
          "bole_prefix_cache_misses_total{reason=\"", reason, "\"}"));
      double& before = misses_[reason];
      if (now > before) fresh[reason] = static_cast<int>(now - before);
      before = now;
    }
    return fresh;
  }
  // Runs the prompt to its end, and returns why no more of it was found; ""
  // if all was that there could be.
  std::string MissOf(const Tokens& prompt, const std::string& salt = "") {
    NewMisses();
    Reader reader = AskAs("", prompt, 5, salt);
    RunAll();
    ExpectOutput(reader, SimulatedOutput(prompt, 5));
    cached_ = (*reader.end)->cached_tokens;
    const std::map<std::string, int> fresh = NewMisses();
    if (fresh.empty()) return "";
    EXPECT_EQ(fresh.size(), 1u);
    EXPECT_EQ(fresh.begin()->second, 1);
    return fresh.begin()->first;
  }

  int cached_ = 0;  // Of the last MissOf().
  std::map<std::string, double> misses_;
};

TEST_F(SchedulerMissesTest, ColdIsWhatNobodyBeganAndAllAfterAConnection) {
  const Tokens prompt = Prompt(300);
  EXPECT_EQ(MissOf(prompt), "cold");
  EXPECT_EQ(MissOf(prompt), "");
  EXPECT_EQ(cached_, 256);

  Lose(0);
  Connect(0);
  EXPECT_EQ(MissOf(prompt), "cold");
  EXPECT_EQ(cached_, 0);
}

TEST_F(SchedulerMissesTest, ShortPromptsAreBelowTheGranularity) {
  EXPECT_EQ(MissOf(Prompt(64)), "below_granularity");
  EXPECT_EQ(MissOf(Prompt(65)), "cold");
}

TEST_F(SchedulerMissesTest, WhatGaveWayIsEvicted) {
  const Tokens prompt = Prompt(300);
  MissOf(prompt);
  for (int i = 0; i < 30; ++i) MissOf(Prompt(400));
  EXPECT_EQ(MissOf(prompt), "evicted");
  EXPECT_EQ(cached_, 0);
}

TEST_F(SchedulerMissesTest, WhereTextsPartThereIsNoCheckpointTheFirstTime) {
  const Tokens prompt = Prompt(300);
  MissOf(prompt);
  EXPECT_EQ(MissOf(FirstOf(prompt, 200) + Prompt(100)), "no_checkpoint");
  EXPECT_EQ(cached_, 0);
  EXPECT_EQ(MissOf(FirstOf(prompt, 200) + Prompt(100)), "");
  EXPECT_EQ(cached_, 192);
}

TEST_F(SchedulerMissesTest, TheTextsOfOthersAreBehindASalt) {
  const Tokens prompt = Prompt(300);
  MissOf(prompt);
  EXPECT_EQ(MissOf(prompt, "salt"), "salt");
  EXPECT_EQ(cached_, 0);
  EXPECT_EQ(MissOf(prompt, "salt"), "");
}

TEST_F(SchedulerMissesTest, AnotherWorkerHasItAndNoRoom) {
  const Tokens prompt = Prompt(300);
  MissOf(prompt);
  Fill(0);
  Connect(1);

  EXPECT_EQ(MissOf(prompt), "other_worker");
  EXPECT_EQ(cached_, 0);
  EXPECT_EQ(MissOf(prompt), "") << "both have it";
  EXPECT_EQ(cached_, 256);
}

TEST_F(SchedulerMissesTest, APreemptedJobGoesOnWhereItWas) {
  std::vector<Running> flood = Fill(0);
  while (PrefilledOn(0, 1) > 0) continue;
  const Tokens other = Prompt(90);
  NewMisses();
  const double queries = Value("bole_prefix_cache_queries_tokens_total");
  Reader taker = AskAs("other", other, 20);
  // One leaves its place between two rounds, and its slot has all but the
  // pending token: nothing of it is run again.
  const int prefilled = PrefilledOn(0, 1000);

  EXPECT_EQ(Value("bole_migrations_total{reason=\"preempted\"}"), 1);
  EXPECT_EQ(prefilled, 90);
  EXPECT_EQ(NewMisses(), (std::map<std::string, int>{{"cold", 1}}));
  const double asked = Value("bole_prefix_cache_queries_tokens_total");
  EXPECT_GT(asked - queries, 90 + kFillerPrompt);
  EXPECT_EQ(asked - queries - 90, Value("bole_prefix_cache_hits_tokens_total"));
  ExpectOutput(taker, SimulatedOutput(other, 20));
  ExpectWhole(flood);
}

TEST_F(SchedulerMissesTest, AJobThatMovesTakesWhatTheNewWorkerHas) {
  const Tokens prompt = Prompt(300);
  const Tokens longer = prompt + Prompt(150);
  Lose(0);
  Connect(1);
  MissOf(prompt);
  std::vector<Running> others = Fill(1);
  Connect(0);
  Reader reader = AskAs("", longer, 100);
  ASSERT_EQ(scheduler_.status().workers[0].running, 1);
  PrefilledOn(1, 1000);
  ExpectWhole(others);
  EXPECT_EQ(PrefilledOn(0, 8), 450);
  reader.Read();
  ASSERT_FALSE(reader.tokens.empty());

  NewMisses();
  Tell(0, WorkerDraining{workers_[0]->epoch()});
  RunRound(0);
  ASSERT_EQ(scheduler_.status().workers[1].running, 1);
  reader.Read();
  // The last token is pending.
  const int length = 450 + static_cast<int>(reader.tokens.size()) - 1;
  const int prefilled = PrefilledOn(1, 1000);

  EXPECT_EQ(Value("bole_migrations_total{reason=\"drained\"}"), 1);
  EXPECT_EQ(prefilled, length - 256);
  EXPECT_EQ(NewMisses(), (std::map<std::string, int>{{"other_worker", 1}}));
  ExpectOutput(reader, SimulatedOutput(longer, 100));
}

}  // namespace
}  // namespace bole
