#include "scheduler_service/jobs/fair_queue.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::MakeTinyTokenizer;
using ::bole::testing::UniformInt;
using ::std::chrono::seconds;

class FairQueueTest : public ::testing::Test {
 protected:
  Job& Make(const std::string& tenant = "", int priority = 0, int arrival = 0) {
    auto request =
        MakeRequest({'x'}, /*max_tokens=*/10, TimePoint() + seconds(arrival));
    request->tenant = tenant;
    request->priority = priority;
    jobs_.push_back(std::make_unique<Job>(std::move(request), *tokenizer_));
    return *jobs_.back();
  }
  Job& Push(const std::string& tenant = "", int priority = 0, int arrival = 0) {
    Job& job = Make(tenant, priority, arrival);
    queue_.Push(job);
    return job;
  }
  Job* Pop() {
    Job* job = queue_.Front();
    if (job != nullptr) queue_.Remove(*job);
    return job;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  std::vector<std::unique_ptr<Job>> jobs_;
  FairQueue queue_;
};

TEST_F(FairQueueTest, WithoutTenantsTheOrderIsThatOfArrival) {
  Job& second = Push("", 0, 2);
  Job& third = Push("", 0, 3);
  Job& first = Push("", 0, 1);
  Job& also_third = Push("", 0, 3);
  EXPECT_EQ(queue_.size(), 4u);

  for (Job* job : {&first, &second, &third, &also_third}) {
    EXPECT_EQ(Pop(), job);
    queue_.Charge(*job, 1000);
  }
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(Pop(), nullptr);
}

TEST_F(FairQueueTest, SumsAreThoseOfWhatWaits) {
  for (const int length : {3, 5}) {
    auto request = MakeRequest(std::vector<int32_t>(length, 'x'), 10);
    request->bytes = 100 * length;
    jobs_.push_back(std::make_unique<Job>(std::move(request), *tokenizer_));
    queue_.Push(*jobs_.back());
  }
  EXPECT_EQ(queue_.tokens(), 8u);
  EXPECT_EQ(queue_.bytes(), 800u);

  queue_.Remove(*jobs_[0]);
  EXPECT_EQ(queue_.tokens(), 5u);
  EXPECT_EQ(queue_.bytes(), 500u);
}

TEST_F(FairQueueTest, OneThatComesBackTakesItsPlace) {
  Job& first = Push("", 0, 1);
  Job& second = Push("", 0, 2);
  ASSERT_EQ(Pop(), &first);
  queue_.Charge(first, 100);

  queue_.Push(first);

  EXPECT_EQ(Pop(), &first);
  EXPECT_EQ(Pop(), &second);
}

TEST_F(FairQueueTest, PriorityCountsWithinATenant) {
  Push("a", 0, 1);
  Job& urgent = Push("a", 5, 3);
  Job& other = Push("b", 0, 4);

  EXPECT_EQ(Pop(), &urgent);
  queue_.Charge(urgent, 10);
  EXPECT_EQ(Pop(), &other);
}

TEST_F(FairQueueTest, TheLeastServedTenantIsNext) {
  for (int i = 0; i < 30; ++i) Push("flood", 0, i);
  for (int i = 0; i < 10; ++i) Push("other", 0, 100 + i);

  std::map<std::string, int> served;
  for (int i = 0; i < 12; ++i) {
    Job* job = Pop();
    const std::string& tenant = job->request().tenant;
    const int tokens = tenant == "flood" ? 300 : 100;
    served[tenant] += tokens;
    queue_.Charge(*job, tokens);
  }

  EXPECT_EQ(served["flood"], 900);
  EXPECT_EQ(served["other"], 900);
}

TEST_F(FairQueueTest, WhoDidNotAskIsOwedNothing) {
  Push("late", 0, 0);
  queue_.Charge(*Pop(), 10);
  for (int i = 0; i < 50; ++i) {
    Push("busy", 0, i);
    Push("busy", 0, i);
    queue_.Charge(*Pop(), 100);
  }

  for (int i = 0; i < 20; ++i) Push("late", 0, 1000 + i);
  int late = 0;
  for (int i = 0; i < 20; ++i) {
    Job* job = Pop();
    late += job->request().tenant == "late" ? 1 : 0;
    queue_.Charge(*job, 100);
  }

  EXPECT_NEAR(late, 10, 1);
}

TEST_F(FairQueueTest, LeavingTheQueueDoesNotPayADebt) {
  Push("busy", 0, 0);
  Job& heavy = Push("heavy", 0, 1);
  queue_.Remove(heavy);
  queue_.Charge(heavy, 10'000);

  queue_.Push(heavy);
  Push("busy", 0, 2);

  EXPECT_EQ(Pop()->request().tenant, "busy");
  EXPECT_EQ(Pop()->request().tenant, "busy");
  EXPECT_EQ(Pop(), &heavy);
}

TEST_F(FairQueueTest, EachTenantsNextIsListedAndItsLeadTold) {
  Push("a", 0, 2);
  Job& urgent = Push("a", 1, 3);
  Job& other = Push("b", 0, 1);
  queue_.Charge(other, 70);

  EXPECT_EQ(queue_.Fronts(), (std::vector<Job*>{&urgent, &other}));
  EXPECT_EQ(queue_.Lead(other, urgent), 70);
  EXPECT_EQ(queue_.Lead(Make("new"), other), -70);
}

TEST_F(FairQueueTest, RandomUseServesEveryoneWhoWaitsAlike) {
  std::mt19937 rng(1);
  std::map<std::string, int64_t> served;
  const std::vector<std::string> tenants = {"a", "b", "c"};
  for (int i = 0; i < 3000; ++i) {
    for (const std::string& tenant : tenants) Push(tenant, 0, i);
    Job* job = Pop();
    const int tokens = UniformInt(rng, 1, 100);
    served[job->request().tenant] += tokens;
    queue_.Charge(*job, tokens);
  }

  for (const std::string& tenant : tenants) {
    EXPECT_NEAR(served[tenant], served["a"], 100) << tenant;
  }
}

TEST_F(FairQueueTest, ManyTenantsThatComeOnceAreForgotten) {
  for (int i = 0; i < 20'000; ++i) {
    Push(std::to_string(i), 0, i);
    queue_.Charge(*Pop(), 10);
  }

  Push("a", 0, 0);
  EXPECT_EQ(Pop()->request().tenant, "a");
}

}  // namespace
}  // namespace bole
