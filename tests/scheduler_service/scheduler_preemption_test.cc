// Tenants that share workers on which there is no place left.
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler_service/asked.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/scrape.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::Asked;
using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::SimulatedWorker;
using ::bole::testing::TreeOptions;

// Four places, and pages for prompts of any length unless there are few.
class SchedulerPreemptionTest : public SchedulerTest {
 protected:
  static StepLimits Limits(bool few_pages) {
    StepLimits limits = SimulatedWorker::SmallLimits();
    if (few_pages) return limits;
    limits.max_prefill_tokens = 8192;
    limits.max_context = 8192;
    limits.num_pages = 4096;
    return limits;
  }
  explicit SchedulerPreemptionTest(bool few_pages = false)
      : SchedulerTest(TreeOptions(), Limits(few_pages)) {
    Tell(worker_.Connect());
  }

  Asked& AskAs(const std::string& tenant, int prompt, int max_tokens) {
    Asked asked{.prompt = RandomPrompt(rng_, prompt),
                .max_tokens = max_tokens,
                .reader = {}};
    auto request = MakeRequest(asked.prompt, max_tokens, now_);
    request->tenant = tenant;
    asked.reader = Ask(std::move(request));
    asked_.push_back(std::move(asked));
    return asked_.back();
  }
  double Preempted() {
    return testing::Scrape(*metrics_.registry())
        .at("bole_migrations_total{reason=\"preempted\"}");
  }
  void ExpectAllWhole() {
    RunAll();
    for (Asked& asked : asked_) {
      ExpectOutput(asked.reader,
                   SimulatedOutput(asked.prompt, asked.max_tokens));
    }
    ExpectAllFree();
  }

  std::vector<Asked> asked_;
};

TEST_F(SchedulerPreemptionTest, WhoHoldsNothingGetsAPlaceInTheNextRound) {
  for (int i = 0; i < 6; ++i) AskAs("flood", 20, 60);
  RunRound();
  RunRound();
  Asked& other = AskAs("other", 20, 60);
  RunRound();
  EXPECT_EQ(Preempted(), 1);
  RunRound();

  other.reader.Read();
  EXPECT_FALSE(other.reader.tokens.empty());
  EXPECT_EQ(Preempted(), 1);
  ExpectAllWhole();
}

class FewPagesTest : public SchedulerPreemptionTest {
 protected:
  FewPagesTest() : SchedulerPreemptionTest(/*few_pages=*/true) {}
};

TEST_F(FewPagesTest, WhoHasEmittedNothingKeepsItsPlace) {
  // Most pages are held by two, whose prompts are run in chunks of 128 tokens:
  // the first one emits in the third round.
  AskAs("flood", 300, 10);
  AskAs("flood", 300, 10);
  RunRound();
  AskAs("other", 100, 10);
  RunRound();
  EXPECT_EQ(Preempted(), 0);
  RunRound();
  EXPECT_EQ(Preempted(), 1);
  ExpectAllWhole();
}

TEST_F(SchedulerPreemptionTest, TenantsThatFloodAlikeTakeNoPlaces) {
  for (int i = 0; i < 20; ++i) {
    AskAs("a", 20 + i, 40);
    AskAs("b", 20 + i, 40);
  }
  ExpectAllWhole();
  // One of them was there before the other.
  EXPECT_LE(Preempted(), 2);
}

TEST_F(SchedulerPreemptionTest, WhoWasServedFarMoreWaitsInTheQueue) {
  for (int i = 0; i < 6; ++i) AskAs("short", 20, 400);
  RunRound();
  RunRound();
  std::vector<double> preempted;
  for (int i = 0; i < 5; ++i) {
    AskAs("long", 6000, 1);
    for (int round = 0; round < 3; ++round) RunRound();
    preempted.push_back(Preempted());
  }
  // The lead is 18,000 tokens before the fourth.
  EXPECT_EQ(preempted, (std::vector<double>{1, 2, 3, 3, 3}));
  ExpectAllWhole();
}

}  // namespace
}  // namespace bole
