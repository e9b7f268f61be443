#include "scheduler_service/replicas/preemption.h"

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::MakeTinyTokenizer;
using ::bole::testing::RandomPrompt;
using Jobs = std::vector<Job*>;

class PreemptionTest : public ::testing::Test {
 protected:
  // Eight places, and a hundred pages of one token.
  static StepLimits Limits() {
    return {.max_requests = 8,
            .max_nodes = 8,
            .max_nodes_per_tree = 1,
            .max_prefill_tokens = 256,
            .max_draft = {.top_k = 1, .depth = 1},
            .num_slots = 8,
            .num_pages = 100,
            .page_size = 1,
            .max_context = 200,
            .vocabulary = 256};
  }

  Job& Make(const std::string& tenant, int prompt, int priority = 0) {
    now_ += std::chrono::seconds(1);
    auto request = MakeRequest(RandomPrompt(rng_, prompt), 50, now_);
    request->tenant = tenant;
    request->priority = priority;
    jobs_.push_back(std::make_unique<Job>(std::move(request), *tokenizer_));
    return *jobs_.back();
  }
  // It holds a page more than its prompt has tokens.
  Job& Place(const std::string& tenant, int prompt, int priority = 0,
             bool emits = true) {
    Job& job = Make(tenant, prompt, priority);
    EXPECT_TRUE(placements_.HasRoomFor(job));
    held_.Add(tenant, placements_.ShareOf(job));
    placements_.Place(job);
    SequenceResult result;
    result.committed = emits ? prompt : prompt - 1;
    if (emits) result.emitted = {{.token = 'x', .logprob = 0, .top = {}}};
    placements_.Find(job).Advance(std::move(result));
    return job;
  }
  Jobs Victims(const Job& job) { return FindVictims(job, held_, placements_); }

  std::mt19937 rng_{1};
  TimePoint now_;
  const std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  std::vector<std::unique_ptr<Job>> jobs_;
  Placements placements_{Limits(), RoundBounds(), /*max_running=*/8};
  HeldShares held_;
};

TEST_F(PreemptionTest, AShareIsOfThePlacesOrOfThePagesWhicheverIsMore) {
  EXPECT_EQ(placements_.ShareOf(Make("a", 5)), 125'000);
  EXPECT_EQ(placements_.ShareOf(Make("a", 29)), 300'000);
}

TEST_F(PreemptionTest, TheLatestOfTheLowestPriorityLeaves) {
  for (int i = 0; i < 5; ++i) Place("flood", 5, /*priority=*/1);
  Job& low = Place("flood", 5);
  Job& latest_low = Place("flood", 5);
  Place("flood", 5, /*priority=*/1);
  Job& job = Make("other", 5);

  EXPECT_EQ(Victims(job), Jobs{&latest_low});

  held_.Remove("flood", placements_.ShareOf(latest_low));
  placements_.Drop(placements_.Find(latest_low));
  Place("other", 5);
  EXPECT_EQ(Victims(Make("other", 5)), Jobs{&low});
}

TEST_F(PreemptionTest, TheTenantThatHoldsMostGivesUpAPlace) {
  for (int i = 0; i < 3; ++i) Place("some", 5);
  Job& many = Place("most", 9);
  for (int i = 0; i < 3; ++i) Place("most", 5);
  Place("some", 5, 0, /*emits=*/false);
  held_.Add("most", 125'000);  // On another worker.

  const Jobs victims = Victims(Make("other", 5));

  ASSERT_EQ(victims.size(), 1u);
  EXPECT_EQ(victims[0]->request().tenant, "most");
  EXPECT_NE(victims[0], &many);
}

TEST_F(PreemptionTest, NobodyLeavesForATenantThatThenHoldsAlmostAsMuch) {
  Place("other", 5);
  Place("other", 5);
  for (int i = 0; i < 6; ++i) Place("flood", 5);
  EXPECT_TRUE(Victims(Make("other", 5)).size() == 1);  // 5 beside 3.

  held_.Add("other", 125'000);
  EXPECT_TRUE(Victims(Make("other", 5)).empty());  // 5 beside 4.
}

TEST_F(PreemptionTest, WhoHasEmittedNothingHereOrIsASuspectStays) {
  for (int i = 0; i < 8; ++i) Place("flood", 5, 0, /*emits=*/i < 2);
  jobs_[1]->was_refused = true;
  Job& job = Make("other", 5);
  EXPECT_EQ(Victims(job), Jobs{jobs_[0].get()});

  jobs_[0]->losses = Job::kSuspectLosses;
  EXPECT_TRUE(Victims(job).empty());
}

TEST_F(PreemptionTest, AsManyLeaveAsThePagesNeedOrNobody) {
  for (int i = 0; i < 6; ++i) Place("flood", 14);  // 15 of 100 pages each.
  // 10 pages are free, of which those that run keep 6.
  EXPECT_EQ(Victims(Make("other", 20)).size(), 2u);  // 4 + 16 are too few.
  EXPECT_EQ(Victims(Make("other", 19)).size(), 1u);
  EXPECT_TRUE(Victims(Make("other", 40)).empty());  // 41 beside 45.
}

TEST_F(PreemptionTest, NobodyLeavesForTheirOwnTenant) {
  for (int i = 0; i < 8; ++i) Place("flood", 5);
  EXPECT_TRUE(Victims(Make("flood", 5)).empty());
}

}  // namespace
}  // namespace bole
