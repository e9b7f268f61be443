// Texts under a policy that begins to draft, stops, and begins again.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/step_costs.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::SimulatedWorker;
using ::bole::testing::TreeOptions;

// Forwards of 10 us, trips of 20 us, and drafts of so many.
std::shared_ptr<const CostTable> Table(int draft_us) {
  absl::StatusOr<StepCosts> costs = StepCosts::Parse(
      R"({"terms": [
       {"name": "forward", "axes": [["forward_rows", [1, 512]]],
        "microseconds": [10, 11]},
       {"name": "draft", "axes": [["draft_depth", [1, 8]]],
        "microseconds": [)" +
      std::to_string(draft_us) + ", " + std::to_string(draft_us) + "]}]}");
  EXPECT_TRUE(costs.ok()) << costs.status();
  auto table = std::make_shared<CostTable>();
  table->costs = *std::move(costs);
  table->round_trip_seconds = 0.00002;
  return table;
}

class SchedulerPolicyTest : public SchedulerTest {
 protected:
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_lease_rounds = 4;
    return limits;
  }
  SchedulerPolicyTest() : SchedulerTest(TreeOptions(), Limits()) {}

  // What the plans of some requests had.
  struct Seen {
    int drafts = 0;
    int deferred = 0;
    int tails = 0;
    int leases = 0;
  };
  Seen RunSome(int num_requests, int max_tokens) {
    std::vector<std::vector<int32_t>> prompts;
    std::vector<Reader> readers;
    for (int i = 0; i < num_requests; ++i) {
      prompts.push_back(RandomPrompt(rng_, 20 + i));
      readers.push_back(Ask(prompts.back(), max_tokens));
    }
    Seen seen;
    while (worker_.has_plan()) {
      const StepPlan& plan = worker_.next_plan();
      seen.drafts += plan.draft ? 1 : 0;
      seen.deferred += plan.defers_draft ? 1 : 0;
      seen.leases += plan.lease ? 1 : 0;
      for (const SequencePlan& sequence : plan.sequences) {
        seen.tails += sequence.draft_tail.empty() ? 0 : 1;
      }
      RunRound();
    }
    for (int i = 0; i < num_requests; ++i) {
      ExpectOutput(readers[i], SimulatedOutput(prompts[i], max_tokens));
    }
    ExpectAllFree();
    return seen;
  }
};

TEST_F(SchedulerPolicyTest, WhatPaysIsDrafted) {
  worker_.set_costs(Table(/*draft_us=*/5));
  Tell(worker_.Connect());

  const Seen seen = RunSome(/*num_requests=*/3, /*max_tokens=*/200);

  EXPECT_GT(seen.drafts, 0);
  EXPECT_EQ(seen.deferred, 0);
  EXPECT_EQ(seen.tails, 0);
  EXPECT_GT(seen.leases, 0);
}

// Nine tokens of a request in the time of a draft are fewer than without.
TEST_F(SchedulerPolicyTest, WhatCannotPayIsNotTried) {
  worker_.set_costs(Table(/*draft_us=*/150));
  Tell(worker_.Connect());

  const Seen seen = RunSome(/*num_requests=*/3, /*max_tokens=*/400);

  EXPECT_EQ(seen.drafts, 0);
  EXPECT_EQ(seen.deferred, 0);
  EXPECT_GT(seen.leases, 0);
}

TEST_F(SchedulerPolicyTest, WhatDoesNotPayIsDeferredAndTriedAgain) {
  worker_.set_costs(Table(/*draft_us=*/40));
  Tell(worker_.Connect());

  const Seen seen = RunSome(/*num_requests=*/3, /*max_tokens=*/400);

  EXPECT_GT(seen.deferred, 20);
  EXPECT_GT(seen.drafts, 0);
  EXPECT_LT(seen.drafts, seen.deferred / 2);
  EXPECT_GT(seen.tails, 0);
}

TEST_F(SchedulerPolicyTest, WithoutATableItDoesAsTheFixedPolicyAndSaysSo) {
  Tell(worker_.Connect());
  EXPECT_EQ(scheduler_.status().workers[0].policy_fallback, "no_table");

  const Seen seen = RunSome(/*num_requests=*/2, /*max_tokens=*/100);

  EXPECT_GT(seen.drafts, 0);
  EXPECT_EQ(seen.deferred, 0);
}

TEST_F(SchedulerPolicyTest, AWorkerThatCannotDeferDraftsAlways) {
  worker_.set_costs(Table(/*draft_us=*/150));
  auto news = std::get<WorkerConnected>(worker_.Connect());
  news.description.protocol_version = 1;
  Tell(std::move(news));

  const Seen seen = RunSome(/*num_requests=*/2, /*max_tokens=*/100);

  EXPECT_GT(seen.drafts, 0);
  EXPECT_EQ(seen.deferred, 0);
  EXPECT_EQ(seen.tails, 0);
}

}  // namespace
}  // namespace bole
