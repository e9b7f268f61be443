// What is evicted from the device, and where it is found again.
#include "scheduler_service/replicas/host_tier.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "scheduler_service/replicas/cache_query.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"
#include "tests/scheduler_service/replicas/prefix_cache_fixture.h"

namespace bole {
namespace {

class HostTierTest : public PrefixCacheTest {
 protected:
  void UseHost(int num_slots, int num_pages, double slot_bytes = 1) {
    HostTierOptions options = {
        .num_slots = num_slots, .num_pages = num_pages, .cache = Options()};
    options.cache.slot_bytes = slot_bytes;
    host_.emplace(*cache_, options);
  }
  PrefixCache::Match LookInBoth(const Text& tokens) const {
    return host_->Look(QueryOf(tokens));
  }
  // Whether a text that begins with all of `tokens` goes on after them.
  bool Finds(const Text& tokens) const {
    return LookInBoth(tokens + Text{1}).position == std::ssize(tokens);
  }
  // Evicts all that the device has, and returns the plan with the copies.
  StepPlan EvictAll() {
    EXPECT_TRUE(cache_->FreeSlots(memory_.slots().total));
    StepPlan plan;
    host_->Send(plan);
    return plan;
  }
  // The text is run, evicted and copied. Returns whether the host took it.
  bool MoveToHost(const Text& tokens) {
    Leave(tokens);
    const StepPlan plan = EvictAll();
    host_->Done();
    EXPECT_EQ(host_->Audit({}), "");
    return !plan.to_host.slots.empty();
  }
  // The same of 96 tokens, which fill six pages.
  void MoveFullPagesToHost(const Text& tokens, bool has_drafter) {
    PageLease pages(memory_);
    ASSERT_TRUE(pages.GrowTo(6));
    cache_->Add(
        "", tokens, pages, *memory_.TakeSlot(),
        {.position = 96, .prompt_length = 96, .has_drafter = has_drafter});
    EvictAll();
    host_->Done();
  }

  std::optional<HostTier> host_;
};

TEST_F(HostTierTest, WhatIsEvictedIsFoundOnceItIsCopied) {
  UseHost(4, 64);
  const Text text = RandomText(rng_, 100);
  Leave(text);
  SlotId slot{0};
  std::vector<PageId> pages;
  {
    const PrefixCache::Hit hit = cache_->Take(QueryOf(text + Text{1}));
    slot = hit.slot->id();
    pages = hit.pages->ids();
  }

  const StepPlan plan = EvictAll();
  EXPECT_FALSE(Finds(text));
  host_->Done();
  EXPECT_TRUE(Finds(text));

  const PrefixCache::Hit hit = host_->Take(QueryOf(text + Text{1}));
  EXPECT_TRUE(hit.on_host);
  EXPECT_EQ(plan.to_host.slots,
            (std::vector<SlotCopy>{{.from = slot, .to = hit.slot->id()}}));
  ASSERT_EQ(plan.to_host.pages.size(), 7u);
  for (size_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(plan.to_host.pages[i],
              (PageCopy{.from = pages[i], .to = hit.pages->ids()[i]}));
  }
}

TEST_F(HostTierTest, AMissSaysWhatTheDeviceWouldSay) {
  UseHost(1, 64);
  const Text text = RandomText(rng_, 150);
  const Text next = text + Text{1};
  EXPECT_EQ(LookInBoth(next).reason, MissReason::kCold);
  Leave(text);
  EvictAll();
  EXPECT_EQ(LookInBoth(next).reason, MissReason::kEvicted) << "on its way";
  host_->Done();
  EXPECT_EQ(LookInBoth(next).reason, MissReason::kNone);
  ASSERT_TRUE(MoveToHost(RandomText(rng_, 300)));
  EXPECT_EQ(LookInBoth(next).reason, MissReason::kEvicted);
  EXPECT_EQ(host_->status().num_evicted, 1);
}

TEST_F(HostTierTest, AFullHostTakesWhatIsWorthMore) {
  UseHost(2, 64);
  const Text first = RandomText(rng_, 150);
  const Text second = RandomText(rng_, 200);
  ASSERT_TRUE(MoveToHost(second) && MoveToHost(first));

  EXPECT_FALSE(MoveToHost(RandomText(rng_, 100)));
  EXPECT_TRUE(Finds(first) && Finds(second));
  const Text third = RandomText(rng_, 300);
  EXPECT_TRUE(MoveToHost(third));
  EXPECT_FALSE(Finds(first)) << "the shortest goes first";
  EXPECT_TRUE(Finds(second) && Finds(third));
}

TEST_F(HostTierTest, WhatHasNoRoomAtAllEvictsNothing) {
  UseHost(4, 10);
  const Text text = RandomText(rng_, 100);
  ASSERT_TRUE(MoveToHost(text));
  EXPECT_FALSE(MoveToHost(RandomText(rng_, 161))) << "eleven pages";
  EXPECT_TRUE(Finds(text));
  EXPECT_TRUE(MoveToHost(RandomText(rng_, 160)));
  EXPECT_FALSE(Finds(text));
}

TEST_F(HostTierTest, APlaceThatIsBeingCopiedToIsNotGivenAway) {
  UseHost(1, 64);
  const Text text = RandomText(rng_, 100);
  Leave(text);
  ASSERT_TRUE(cache_->FreeSlots(6));
  Leave(RandomText(rng_, 300));  // Worth more, and evicted before the copy
  EXPECT_EQ(EvictAll().to_host.slots.size(), 1u);  // is sent,
  Leave(RandomText(rng_, 300));                    // or while it runs.
  ASSERT_TRUE(cache_->FreeSlots(6));
  host_->Done();
  EXPECT_TRUE(Finds(text));

  EXPECT_TRUE(MoveToHost(RandomText(rng_, 300)));
  EXPECT_FALSE(Finds(text));
}

TEST_F(HostTierTest, PagesThatTheOtherSideHasAreNotCopied) {
  UseHost(4, 64);
  const Text common = RandomText(rng_, 96);
  ASSERT_TRUE(MoveToHost(common));
  const Text text = common + RandomText(rng_, 50);
  Leave(text);
  EXPECT_EQ(EvictAll().to_host.pages.size(), 10u - 6u);
  host_->Done();

  Leave(common);
  const PrefixCache::Hit hit = host_->Take(QueryOf(text + Text{1}));
  EXPECT_EQ(hit.from.position, 146);
  EXPECT_EQ(hit.pages->size(), 10);
  EXPECT_EQ(hit.first_written, 6) << "of the device";
  EXPECT_EQ(hit.shared->size(), 6);
  EXPECT_EQ(host_->status().num_hits, 1);
  EXPECT_EQ(host_->status().num_hit_tokens, 146 - 96);
}

// The host keeps its own pages, so the drafter knows no more of them than it
// did when they were copied.
TEST_F(HostTierTest, PagesWithoutTheDrafterStayWithoutIt) {
  UseHost(1, 64);
  const Text text = RandomText(rng_, 96);
  MoveFullPagesToHost(text, /*has_drafter=*/false);
  MoveFullPagesToHost(text, /*has_drafter=*/true);
  EXPECT_FALSE(host_->Take(QueryOf(text + Text{1})).from.has_drafter);

  const Text longer = text + RandomText(rng_, 200);
  ASSERT_TRUE(MoveToHost(longer));  // In the place of the other.
  const PrefixCache::Hit hit = host_->Take(QueryOf(longer + Text{1}));
  EXPECT_EQ(hit.from.position, 296);
  EXPECT_FALSE(hit.from.has_drafter);
}

TEST_F(HostTierTest, WhatTakesLongerToCopyIsRunAgain) {
  // A second for the state, and 10 us for a token.
  UseHost(4, 64, kHostBytesPerSecond);
  const Text text = RandomText(rng_, 100);
  ASSERT_TRUE(MoveToHost(text));
  EXPECT_FALSE(Finds(text));
  EXPECT_EQ(host_->Take(QueryOf(text + Text{1})).from.position, 0);
  EXPECT_EQ(host_->status().num_hits, 0);
}

TEST_F(HostTierTest, ARefusedPlanLeavesWhatRequestsHoldAlone) {
  UseHost(4, 64);
  const Text held = RandomText(rng_, 100);
  const Text idle = RandomText(rng_, 100);
  ASSERT_TRUE(MoveToHost(held) && MoveToHost(idle));
  PrefixCache::Hit hit = host_->Take(QueryOf(held + Text{1}));
  Leave(RandomText(rng_, 100));
  EXPECT_EQ(EvictAll().to_host.slots.size(), 1u);
  Leave(RandomText(rng_, 100));
  ASSERT_TRUE(cache_->FreeSlots(6));  // For the next plan.

  host_->Refused();
  EXPECT_EQ(host_->status().num_checkpoints, 1);
  EXPECT_TRUE(Finds(held));
  EXPECT_FALSE(Finds(idle));
  StepPlan plan;
  host_->Send(plan);
  EXPECT_TRUE(plan.to_host.empty());

  EXPECT_EQ(host_->Audit({.slots = {}, .pages = hit.pages->ids()}), "");
  EXPECT_NE(host_->Audit({}), "") << "of a request that does not tell";
  hit = {};
  EXPECT_EQ(host_->Audit({}), "");
}

}  // namespace
}  // namespace bole
