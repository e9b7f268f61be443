#include "scheduler_service/links/peer_table.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/share.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr milliseconds kPatience(3'000);

Peer Named(const std::string& name, uint64_t instance, int64_t started_us) {
  return {.instance = instance,
          .started_us = started_us,
          .name = name,
          .models = {"demo"}};
}

class PeerTableTest : public ::testing::Test {
 protected:
  std::vector<std::string> Living() {
    std::vector<std::string> names;
    for (const Peer& peer : table_.View(now_).living) {
      names.push_back(peer.name);
    }
    return names;
  }
  bool IsSettled() { return table_.View(now_).settled; }

  PeerTable::Time now_ = PeerTable::Time() + seconds(1000);
  PeerTable table_{Named("self", 5, 50), {"all:1"}, kPatience, now_};
};

TEST_F(PeerTableTest, WhoAnsweredLatelyLivesTheOldestFirst) {
  table_.SetAddresses("all:1", {"a:1", "b:1", "self:1"});
  table_.Answered("self:1", Named("self", 5, 50), now_);
  table_.Answered("b:1", Named("b", 7, 10), now_);
  table_.Answered("a:1", Named("a", 9, 90), now_ + seconds(1));
  EXPECT_THAT(Living(), ElementsAre("b", "self", "a"));

  now_ += kPatience;

  EXPECT_THAT(Living(), ElementsAre("self", "a"));
  EXPECT_THAT(table_.View(now_).silent, ElementsAre("b"));
}

TEST_F(PeerTableTest, EqualAgesAreOrderedByInstance) {
  table_.SetAddresses("all:1", {"a:1", "b:1"});
  table_.Answered("a:1", Named("a", 4, 50), now_);
  table_.Answered("b:1", Named("b", 6, 50), now_);

  EXPECT_THAT(Living(), ElementsAre("a", "self", "b"));
}

TEST_F(PeerTableTest, OneThatAnswersAtTwoAddressesIsOne) {
  table_.SetAddresses("all:1", {"a:1", "b:1"});
  table_.Answered("a:1", Named("a", 1, 1), now_);
  table_.Answered("b:1", Named("a", 1, 1), now_);

  EXPECT_THAT(Living(), ElementsAre("a", "self"));
}

TEST_F(PeerTableTest, AProcessThatIsStartedAnewReplacesTheOneBefore) {
  table_.SetAddresses("all:1", {"a:1"});
  table_.Answered("a:1", Named("a", 1, 1), now_);

  table_.Answered("a:1", Named("a again", 2, 60), now_);

  EXPECT_THAT(Living(), ElementsAre("self", "a again"));
}

TEST_F(PeerTableTest, TheViewIsSettledOnceAllHadTheirTurn) {
  EXPECT_FALSE(IsSettled());
  table_.SetAddresses("all:1", {"a:1", "b:1"});
  table_.Answered("a:1", Named("a", 1, 1), now_);
  EXPECT_FALSE(IsSettled());

  table_.Failed("b:1");

  EXPECT_TRUE(IsSettled());
  EXPECT_THAT(table_.View(now_).silent, ElementsAre("b:1"));
}

TEST_F(PeerTableTest, TheViewIsSettledAfterAWhileIfTheNameIsNotKnown) {
  now_ += kPatience - milliseconds(1);
  EXPECT_FALSE(IsSettled());
  now_ += milliseconds(1);

  EXPECT_TRUE(IsSettled());
  EXPECT_THAT(Living(), ElementsAre("self"));
}

TEST_F(PeerTableTest, WhoLeavesDoesNotLiveAndIsNotSilentYet) {
  table_.SetAddresses("all:1", {"a:1", "b:1"});
  table_.Answered("a:1", Named("a", 1, 1), now_);
  table_.Answered("b:1", Named("b", 2, 2), now_);
  EXPECT_TRUE(table_.IsLiving(1, now_));

  table_.Left(1);
  Peer leaving = Named("b", 2, 2);
  leaving.leaving = true;
  table_.Answered("b:1", leaving, now_);

  EXPECT_FALSE(table_.IsLiving(1, now_));
  EXPECT_THAT(Living(), ElementsAre("self"));
  EXPECT_THAT(table_.View(now_).leaving, UnorderedElementsAre("a", "b"));
  EXPECT_THAT(table_.View(now_).silent, IsEmpty());
}

TEST_F(PeerTableTest, AFalseFarewellIsTakenBackByTheNextAnswer) {
  table_.SetAddresses("all:1", {"a:1"});
  table_.Answered("a:1", Named("a", 1, 1), now_);
  table_.Left(1);
  table_.Left(99);

  table_.Answered("a:1", Named("a", 1, 1), now_);

  EXPECT_THAT(Living(), ElementsAre("a", "self"));
}

TEST_F(PeerTableTest, WhoIsNotAmongTheNamesAnyMoreIsAskedUntilItIsSilent) {
  table_.SetAddresses("all:1", {"a:1", "b:1"});
  table_.Answered("a:1", Named("a", 1, 1), now_);
  table_.Failed("b:1");

  table_.SetAddresses("all:1", {"c:1"});

  EXPECT_THAT(table_.addresses(now_), ElementsAre("a:1", "c:1"));
  EXPECT_THAT(Living(), ElementsAre("a", "self"));
  now_ += kPatience;
  EXPECT_THAT(table_.addresses(now_), ElementsAre("c:1"));
  EXPECT_THAT(Living(), ElementsAre("self"));
}

TEST_F(PeerTableTest, WhoIsNoneOfOurAddressesIsIgnored) {
  table_.SetAddresses("all:1", {"a:1"});
  table_.Answered("elsewhere:1", Named("x", 1, 1), now_);
  table_.Failed("elsewhere:1");

  EXPECT_THAT(Living(), ElementsAre("self"));
}

TEST_F(PeerTableTest, APlaceIsAmongThoseThatServeTheModel) {
  table_.SetAddresses("all:1", {"a:1", "b:1"});
  EXPECT_EQ(PlaceIn(table_.View(now_), 5, "demo"), std::nullopt);
  table_.Answered("a:1", Named("a", 1, 1), now_);
  Peer both = Named("b", 2, 2);
  both.models = {"other", "demo"};
  table_.Answered("b:1", both, now_);
  const PeerView view = table_.View(now_);

  EXPECT_EQ(PlaceIn(view, 5, "demo"), (Place{.rank = 2, .of = 3}));
  EXPECT_EQ(PlaceIn(view, 2, "demo"), (Place{.rank = 1, .of = 3}));
  EXPECT_EQ(PlaceIn(view, 2, "other"), (Place{.rank = 0, .of = 1}));
  EXPECT_EQ(PlaceIn(view, 5, "other"), std::nullopt);
}

TEST_F(PeerTableTest, WhoLeavesItselfHasNoPlace) {
  table_.SetAddresses("all:1", {});
  table_.LeaveSelf();

  EXPECT_TRUE(IsSettled());
  EXPECT_EQ(PlaceIn(table_.View(now_), 5, "demo"), std::nullopt);
}

}  // namespace
}  // namespace bole
