// Jobs that lose their places on the demo model, with a prefix cache: to
// another tenant, and to another worker. They write the ids and texts of no
// cache, and prefill only what no checkpoint has.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clients/bench/http_get.h"
#include "clients/bench/server_metrics.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/speculation.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"
#include "tests/scheduler_service/scrape.h"
#include "tests/testing/exhaustive.h"
#include "tests/worker_service/eval/demo_model.h"

namespace bole::e2e {
namespace {

constexpr int kRunning = 4;  // On each worker.
constexpr size_t kAtATime = 2 * kRunning;
constexpr int kManyTokens = 120;
constexpr int kTooManyTokens = 4000;  // Not to be waited for.

SystemOptions With(bool cache, SpeculationMode mode) {
  SystemOptions options;
  options.metrics = true;
  options.engine.num_slots = 40;
  options.engine.num_pages = 400;
  options.scheduler.max_running = kRunning;
  options.scheduler.prefix_cache = cache;
  options.scheduler.policy =
      mode == SpeculationMode::kOff ? PolicyKind::kOff : PolicyKind::kFixed;
  options.scheduler.speculation.mode = mode;
  return options;
}

// All of them, or the first that run together.
std::vector<std::string> Prompts() {
  auto prompts = testing_support::ReadGoldenJson("mat.json")["prompts"]
                     .get<std::vector<std::string>>();
  if (!testing::Exhaustive()) prompts.resize(kAtATime);
  for (std::string& prompt : prompts) {
    prompt.resize(std::min<size_t>(prompt.size(), 400));
  }
  return prompts;
}

std::vector<SpeculationMode> Modes() {
  if (!testing::Exhaustive()) return {SpeculationMode::kTree};
  return {SpeculationMode::kOff, SpeculationMode::kChain,
          SpeculationMode::kTree};
}

v1::GenerateRequest RequestFor(size_t i, const std::string& text,
                               int num_tokens) {
  v1::GenerateRequest request = GreedyRequest(text, num_tokens);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  sampling.set_seed(i);
  if (i % 2 == 1) sampling.set_temperature(0.8f);
  if (i % 4 > 1) {
    sampling.set_presence_penalty(0.6f);
    sampling.set_repetition_penalty(1.2f);
  }
  return request;
}

// Calls that run beside the test.
class Calls {
 public:
  Calls(System& system, const std::string& tenant)
      : system_(system), tenant_(tenant) {}

  void Start(const v1::GenerateRequest& request) {
    calls_.push_back(
        std::make_unique<Call>(system_.stub(), request, std::nullopt, tenant_));
  }
  // Each of them has written something.
  void AwaitTokens(size_t count) {
    for (size_t i = 0; i < count; ++i) EXPECT_TRUE(calls_[i]->Read());
  }
  // What came of them. Returns their prompts' tokens.
  int Finish(std::vector<Generation>& generations) {
    int prompt_tokens = 0;
    for (const auto& call : calls_) {
      generations.push_back(call->Finish());
      const Generation& one = generations.back();
      EXPECT_TRUE(one.status.ok()) << one.status.error_message();
      if (!one.status.ok()) continue;
      prompt_tokens += static_cast<int>(one.complete->usage().prompt_tokens());
    }
    calls_.clear();
    return prompt_tokens;
  }

 private:
  System& system_;
  const std::string tenant_;
  std::vector<std::unique_ptr<Call>> calls_;
};

// By series without the label of the only model.
bench::MetricValues Scrape(System& system) {
  const auto page = bench::HttpGet(
      "http://127.0.0.1:" + std::to_string(system.scheduler().metrics_port()) +
      "/metrics");
  EXPECT_TRUE(page.ok()) << page.status();
  bench::MetricValues values;
  if (!page.ok()) return values;
  for (const auto& [series, value] : bench::ParseMetrics(*page)) {
    values[bole::testing::WithoutModel(series)] += value;
  }
  return values;
}

void ExpectEqual(const std::vector<Generation>& got, size_t first,
                 const std::vector<Generation>& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].ids(), want[first + i].ids()) << "prompt " << first + i;
    EXPECT_EQ(got[i].text(), want[first + i].text()) << "prompt " << first + i;
  }
}

// What is written without a cache, one by one and plainly.
std::vector<Generation> Plainly(const std::vector<std::string>& texts) {
  System system(With(/*cache=*/false, SpeculationMode::kOff));
  std::vector<Generation> generations;
  for (size_t i = 0; i < texts.size(); ++i) {
    generations.push_back(
        Generate(system.stub(), RequestFor(i, texts[i], kManyTokens)));
    EXPECT_TRUE(generations.back().status.ok());
  }
  return generations;
}

class E2eDisplacedTest : public ::testing::Test {
 protected:
  static const std::vector<Generation>& want() {
    static const std::vector<Generation> want = Plainly(Prompts());
    return want;
  }
  const std::vector<std::string> prompts_ = Prompts();
};

TEST_F(E2eDisplacedTest, WhoIsPreemptedGoesOnFromItsDeepestCheckpoint) {
  for (const SpeculationMode mode : Modes()) {
    SCOPED_TRACE(static_cast<int>(mode));
    System system(With(/*cache=*/true, mode));
    int prompt_tokens = 0;
    int num_short = 0;  // Prompts that no checkpoint can be for.
    for (size_t at = 0; at < prompts_.size(); at += kAtATime) {
      // Others come when one tenant's jobs have all places, and two more wait.
      Calls flood(system, "flood");
      for (size_t i = at; i < at + kRunning; ++i) {
        flood.Start(RequestFor(i, prompts_[i], kManyTokens));
      }
      flood.AwaitTokens(kRunning);
      for (size_t i = at + kRunning; i < at + kAtATime - 2; ++i) {
        flood.Start(RequestFor(i, prompts_[i], kManyTokens));
      }
      Calls others(system, "other");
      for (size_t i = at + kAtATime - 2; i < at + kAtATime; ++i) {
        others.Start(RequestFor(i, prompts_[i], kManyTokens));
      }
      std::vector<Generation> got;
      prompt_tokens += flood.Finish(got);
      prompt_tokens += others.Finish(got);
      ExpectEqual(got, at, want());
      num_short += static_cast<int>(
          std::ranges::count_if(got, [](const Generation& one) {
            return one.complete &&
                   one.complete->usage().prompt_tokens() <= kPrefillGrid;
          }));
    }

    system.ExpectIdle();
    const bench::MetricValues values = Scrape(system);
    EXPECT_GT(values.at("bole_migrations_total{reason=\"preempted\"}"), 0);
    // Those that came back looked for all that they had, and found it: no token
    // was prefilled twice, but of texts that are too short for a checkpoint.
    const double looked = values.at("bole_prefix_cache_queries_tokens_total");
    const double found = values.at("bole_prefix_cache_hits_tokens_total");
    const double too_short = values.at(
        "bole_prefix_cache_misses_total{reason=\"below_granularity\"}");
    EXPECT_GT(looked, prompt_tokens);
    EXPECT_LE(looked - found,
              prompt_tokens + (too_short - num_short) * kPrefillGrid);
  }
}

TEST_F(E2eDisplacedTest, WhoMovesTakesWhatTheNewWorkerHas) {
  for (const SpeculationMode mode : Modes()) {
    SCOPED_TRACE(static_cast<int>(mode));
    SystemOptions options = With(/*cache=*/true, mode);
    options.num_workers = 2;
    System system(options);
    for (size_t at = 0; at < prompts_.size(); at += kAtATime) {
      system.StopWorker(0);
      ASSERT_TRUE(Eventually(
          [&] { return system.loop().status().num_connected() == 1; }));
      // The second worker knows half of the prompts, and is full when the first
      // one gets them.
      std::vector<Generation> ignored;
      Calls before(system, "");
      for (size_t i = at; i < at + kRunning; ++i) {
        before.Start(RequestFor(i, prompts_[i], /*num_tokens=*/1));
      }
      before.Finish(ignored);
      auto blockers = std::make_unique<Calls>(system, "");
      for (size_t i = at + kRunning; i < at + kAtATime; ++i) {
        blockers->Start(RequestFor(i, prompts_[i], kTooManyTokens));
      }
      blockers->AwaitTokens(kRunning);
      system.StartWorker(0);
      ASSERT_TRUE(Eventually(
          [&] { return system.loop().status().num_connected() == 2; }));
      Calls movers(system, "");
      for (size_t i = at; i < at + kRunning; ++i) {
        movers.Start(RequestFor(i, prompts_[i], kManyTokens));
      }
      EXPECT_TRUE(system.WaitForLoad(2 * kRunning, 0));
      blockers.reset();  // They are cancelled.
      EXPECT_TRUE(system.WaitForLoad(kRunning, 0));
      const bench::MetricValues settled = Scrape(system);
      auto drained = std::async(std::launch::async, [&] {
        return system.worker(0).Drain(std::chrono::steady_clock::now() +
                                      std::chrono::minutes(2));
      });
      std::vector<Generation> got;
      movers.Finish(got);
      EXPECT_TRUE(drained.get());

      ExpectEqual(got, at, want());
      const bench::MetricValues moved =
          bench::Difference(settled, Scrape(system));
      EXPECT_GT(moved.at("bole_migrations_total{reason=\"drained\"}"), 0);
      EXPECT_GT(moved.at("bole_prefix_cache_hits_tokens_total"), 64);
      system.StopWorker(0);
      system.StartWorker(0);
      ASSERT_TRUE(Eventually(
          [&] { return system.loop().status().num_connected() == 2; }));
    }
    system.ExpectIdle();
  }
}

}  // namespace
}  // namespace bole::e2e
