// One scheduler's claims, told what happens step by step.
#include "scheduler_service/links/claims.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = Claims::Order::Kind;
using Loss = Claims::Loss;
using std::chrono::milliseconds;
using std::chrono::seconds;

class ClaimsTest : public ::testing::Test {
 protected:
  static WorkerId Id(int worker) { return WorkerId(worker); }

  // Workers 0 to `count` - 1, all of which answer.
  void AddWorkers(int count, const std::string& model = "demo") {
    for (int i = 0; i < count; ++i) {
      claims_->Add(Id(i), absl::StrCat("worker-", i));
      claims_->Described(Id(i), model, now_);
    }
  }
  // Who is ordered what.
  std::vector<int> Decide(Kind kind) {
    std::vector<int> workers;
    for (const Claims::Order& order :
         claims_->Decide([this](const std::string&) { return place_; }, now_)) {
      EXPECT_FALSE(order.why.empty());
      if (order.kind == kind) workers.push_back(order.worker.value());
    }
    return workers;
  }
  std::vector<int> Asked() { return Decide(Kind::kAsk); }
  // All who are asked obey.
  std::vector<int> Take() {
    std::vector<int> asked = Asked();
    for (const int worker : asked) {
      claims_->Connected(Id(worker), "demo", now_);
      now_ += milliseconds(1);
    }
    return asked;
  }

  ClaimsOptions options_;
  std::optional<Claims> claims_{std::in_place, /*instance=*/1};
  std::optional<Place> place_ = Place{.rank = 0, .of = 2};
  Claims::Time now_ = Claims::Time() + seconds(1000);
};

TEST_F(ClaimsTest, AsksForItsShareAndNoMore) {
  AddWorkers(5);

  EXPECT_THAT(Take(), SizeIs(3));
  EXPECT_THAT(Asked(), IsEmpty());
}

TEST_F(ClaimsTest, NothingIsDoneBeforeThePlaceIsKnown) {
  AddWorkers(2);
  place_ = std::nullopt;

  EXPECT_THAT(Asked(), IsEmpty());
}

TEST_F(ClaimsTest, WhoseModelIsNotServedIsNeitherAskedNorCounted) {
  AddWorkers(4);
  claims_->Described(Id(1), "", now_);
  claims_->Described(Id(2), "", now_);

  EXPECT_THAT(Take(), SizeIs(1));
}

TEST_F(ClaimsTest, EachModelHasAShareOfItsOwn) {
  AddWorkers(4);
  claims_->Described(Id(2), "other", now_);
  claims_->Described(Id(3), "other", now_);

  std::vector<int> asked = Take();

  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_LT(asked[0], 2);
  EXPECT_GE(asked[1], 2);
}

TEST_F(ClaimsTest, WhoRefusesIsAskedAgainAfterTheOthersAndNotAtOnce) {
  place_->rank = 1;  // One of three.
  AddWorkers(3);
  const std::vector<int> first = Asked();
  ASSERT_THAT(first, SizeIs(1));
  claims_->Lost(Id(first[0]), Loss::kOther, now_);
  claims_->Described(Id(first[0]), "demo", now_);
  const std::vector<int> second = Asked();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_NE(second, first);
  claims_->Lost(Id(second[0]), Loss::kOther, now_);
  claims_->Described(Id(second[0]), "demo", now_);
  const std::vector<int> third = Asked();
  ASSERT_THAT(third, SizeIs(1));
  claims_->Lost(Id(third[0]), Loss::kOther, now_);
  claims_->Described(Id(third[0]), "demo", now_);
  EXPECT_THAT(Asked(), IsEmpty());

  now_ += options_.retry;

  EXPECT_THAT(Asked(), SizeIs(1));
}

TEST_F(ClaimsTest, WhoDoesNotAnswerKeepsNobodyFromAskingAnotherOne) {
  place_->of = 3;
  AddWorkers(3);
  const std::vector<int> first = Asked();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_THAT(Asked(), IsEmpty());

  now_ += options_.slow_answer;

  const std::vector<int> second = Asked();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_NE(second, first);
}

TEST_F(ClaimsTest, ASurplusIsGivenBackOnceTheShareIsSettledTheLatestFirst) {
  place_->of = 1;
  AddWorkers(4);
  const std::vector<int> taken = Take();
  ASSERT_THAT(taken, SizeIs(4));
  place_->of = 2;

  EXPECT_THAT(Decide(Kind::kGiveBack), IsEmpty());
  now_ += options_.settle - milliseconds(1);
  EXPECT_THAT(Decide(Kind::kGiveBack), IsEmpty());
  now_ += milliseconds(1);

  EXPECT_THAT(Decide(Kind::kGiveBack), ElementsAre(taken[3], taken[2]));
  EXPECT_THAT(Decide(Kind::kGiveBack), IsEmpty());
  claims_->Lost(Id(taken[3]), Loss::kClosed, now_);
  claims_->Described(Id(taken[3]), "demo", now_);
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_EQ(claims_->shares().num_given_back, 1);
}

TEST_F(ClaimsTest, AShareThatComesAndGoesMovesNobody) {
  place_->of = 1;
  AddWorkers(4);
  ASSERT_THAT(Take(), SizeIs(4));

  for (int i = 0; i < 20; ++i) {
    place_->of = 2;
    EXPECT_THAT(Decide(Kind::kGiveBack), IsEmpty());
    now_ += options_.settle - milliseconds(1);
    EXPECT_THAT(Decide(Kind::kGiveBack), IsEmpty());
    place_->of = 1;
    EXPECT_THAT(Asked(), IsEmpty());
  }
}

TEST_F(ClaimsTest, WhatIsBeingGivenBackIsKeptIfItIsNeededAgain) {
  place_->of = 1;
  AddWorkers(2);
  const std::vector<int> taken = Take();
  place_->of = 2;
  Decide(Kind::kGiveBack);
  now_ += options_.settle;
  ASSERT_THAT(Decide(Kind::kGiveBack), ElementsAre(taken[1]));

  place_->of = 1;

  EXPECT_THAT(Decide(Kind::kKeep), ElementsAre(taken[1]));
  EXPECT_THAT(Asked(), IsEmpty());
}

TEST_F(ClaimsTest, AWorkerThatIsStartedAnewMovesNoOther) {
  AddWorkers(4);
  const std::vector<int> taken = Take();
  ASSERT_THAT(taken, SizeIs(2));
  claims_->Lost(Id(taken[0]), Loss::kOther, now_);
  claims_->Unreachable(Id(taken[0]));
  for (int i = 0; i < 4; ++i) {
    if (i != taken[0] && i != taken[1]) {
      claims_->Described(Id(i), "demo", now_ + seconds(50));
    }
  }

  now_ += seconds(50);
  claims_->Described(Id(taken[0]), "demo", now_);

  EXPECT_THAT(Asked(), ElementsAre(taken[0]));
}

TEST_F(ClaimsTest, WhoIsNotHeardOfForLongIsNoPartOfThePool) {
  AddWorkers(4);
  ASSERT_THAT(Take(), SizeIs(2));

  now_ += options_.forget;  // The other two are not held.
  Decide(Kind::kGiveBack);
  now_ += options_.settle;

  EXPECT_THAT(Decide(Kind::kGiveBack), SizeIs(1));
}

TEST_F(ClaimsTest, WhoLeavesAsksOnlyForWhatIsLostUnderIt) {
  AddWorkers(4);
  const std::vector<int> taken = Take();
  claims_->Leave();
  place_->of = 1;
  EXPECT_THAT(Asked(), IsEmpty());

  claims_->Lost(Id(taken[0]), Loss::kOther, now_);
  claims_->Lost(Id(taken[1]), Loss::kClosed, now_);
  claims_->Described(Id(taken[0]), "demo", now_);
  claims_->Described(Id(taken[1]), "demo", now_);

  EXPECT_THAT(Asked(), ElementsAre(taken[0]));
}

TEST_F(ClaimsTest, WhoSendsThisSchedulerAwayIsLeftAloneForLonger) {
  place_->of = 1;
  AddWorkers(1);
  ASSERT_THAT(Take(), SizeIs(1));
  claims_->Lost(Id(0), Loss::kSentAway, now_);

  now_ += options_.sent_away - milliseconds(1);
  claims_->Described(Id(0), "demo", now_);
  EXPECT_THAT(Asked(), IsEmpty());
  now_ += milliseconds(1);

  EXPECT_THAT(Asked(), SizeIs(1));
}

TEST_F(ClaimsTest, WhatIsRemovedIsNeitherAskedForNorCounted) {
  AddWorkers(4);
  claims_->Remove(Id(0));
  claims_->Remove(Id(1));

  EXPECT_THAT(Take(), SizeIs(1));
}

TEST_F(ClaimsTest, SchedulersAskInOrdersOfTheirOwn) {
  constexpr int kWorkers = 8;
  std::vector<std::vector<int>> orders;
  for (uint64_t instance = 1; instance <= 4; ++instance) {
    claims_.emplace(instance);
    AddWorkers(kWorkers);
    orders.push_back(Asked());
  }

  EXPECT_FALSE(orders[0] == orders[1] && orders[1] == orders[2] &&
               orders[2] == orders[3]);
}

}  // namespace
}  // namespace bole
