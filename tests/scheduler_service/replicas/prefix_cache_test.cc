#include "scheduler_service/replicas/prefix_cache.h"

#include "gtest/gtest.h"
#include "scheduler_service/replicas/worker_memory.h"
#include "tests/scheduler_service/replicas/prefix_cache_fixture.h"

namespace bole {
namespace {

TEST_F(PrefixCacheTest, ATextGoesOnWhereAnotherEnded) {
  const Text first = RandomText(rng_, 100);
  Leave(first);
  const Text next = first + RandomText(rng_, 30);

  EXPECT_EQ(Found(next), 100);
  const PrefixCache::Hit hit = cache_->Take(QueryOf(next));
  EXPECT_EQ(hit.from.position, 100);
  EXPECT_EQ(hit.pages->size(), 7);
  EXPECT_EQ(hit.first_written, 6) << "the page that it goes on writing";
  EXPECT_EQ(Found(first), 0) << "a token has to be left to run";
  EXPECT_EQ(Found(RandomText(rng_, 130)), 0);
}

TEST_F(PrefixCacheTest, PagesThatAreFullAreNotCopied) {
  const Text first = RandomText(rng_, 96);
  Leave(first);
  const Text next = first + Text{1};
  {
    const PrefixCache::Hit hit = cache_->Take(QueryOf(next));
    EXPECT_EQ(hit.from.position, 96);
    EXPECT_EQ(hit.pages->size(), 6);
    EXPECT_EQ(hit.first_written, 6);
    EXPECT_EQ(hit.num_undrafted(), 1) << "the entry of the token that follows";
  }
  Leave(next);
  EXPECT_EQ(memory_.pages().cached, 7);

  EXPECT_TRUE(cache_->FreePages(64));
}

TEST_F(PrefixCacheTest, WhatTheDrafterHasNotSeenIsCopied) {
  const Text first = RandomText(rng_, 100);
  PageLease pages(memory_);
  pages.GrowTo(7);
  cache_->Add("", first, pages, *memory_.TakeSlot(),
              {.position = 100, .prompt_length = 100, .num_undrafted = 21});

  const PrefixCache::Hit hit = cache_->Take(QueryOf(first + Text{1}));
  EXPECT_EQ(hit.from.num_undrafted, 21);
  EXPECT_EQ(hit.num_undrafted(), 21);
  // Entries of positions 80 .. 100 are missing.
  EXPECT_EQ(hit.first_written, 80 / kPageSize);
  EXPECT_TRUE(hit.from.has_drafter);
}

TEST_F(PrefixCacheTest, EqualBeginningsShareTheirPages) {
  const Text common = RandomText(rng_, 161);
  Leave(common + RandomText(rng_, 15));  // 11 full pages, 10 of them common.
  Leave(common + RandomText(rng_, 15));

  EXPECT_EQ(memory_.pages().total - memory_.pages().free, 12);
  EXPECT_EQ(memory_.pages().cached, 12);
}

TEST_F(PrefixCacheTest, WhatFollowsAPageIsNoPartOfIt) {
  const Text common = RandomText(rng_, 160);
  Leave(common + Text{2001} + RandomText(rng_, 15));
  Leave(common + Text{2002} + RandomText(rng_, 15));

  EXPECT_EQ(memory_.pages().cached, 10 + 2 * 1);
}

TEST_F(PrefixCacheTest, KeysShareNothing) {
  const Text text = RandomText(rng_, 128);
  Leave(text, "tenant");
  const Text next = text + Text{1};

  EXPECT_EQ(Found(next, "tenant"), 128);
  EXPECT_EQ(Found(next, "other"), 0);
  EXPECT_EQ(Look(next, "other").reason, MissReason::kSalt);
}

TEST_F(PrefixCacheTest, ResumedOutputNeedsACheckpointThatAgreesOnThePrompt) {
  const Text text = RandomText(rng_, 120);
  Leave(text);  // All of it was prompt there.
  const Text next = text + Text{1, 2};

  CacheQuery query = QueryOf(next);
  query.prompt_length = 100;
  EXPECT_EQ(cache_->Look(query).position, 0);
  query.prompt_length = 120;
  EXPECT_EQ(cache_->Look(query).position, 120);
}

TEST_F(PrefixCacheTest, MissesSayWhy) {
  const Text text = RandomText(rng_, 200);
  EXPECT_EQ(Look(text).reason, MissReason::kCold);
  EXPECT_EQ(Look(RandomText(rng_, 64)).reason, MissReason::kBelowGranularity);

  Leave(text);
  EXPECT_EQ(Look(text + Text{1}).reason, MissReason::kNone);
  const Text parted = Text(text.begin(), text.end() - 20) + Text{1, 2, 3};
  EXPECT_EQ(Look(parted).reason, MissReason::kNoCheckpoint);
  EXPECT_EQ(Look(parted).wish, 128);

  ASSERT_TRUE(cache_->FreeSlots(6));
  EXPECT_EQ(Look(text + Text{1}).reason, MissReason::kEvicted);
  EXPECT_EQ(memory_.pages().free, 64);
}

TEST_F(PrefixCacheTest, WhatSavesLeastGoesFirst) {
  const Text shorter = RandomText(rng_, 70);
  const Text longer = RandomText(rng_, 300);
  Leave(longer);
  Leave(shorter);

  ASSERT_TRUE(cache_->FreeSlots(5));
  EXPECT_EQ(Found(shorter + Text{1}), 0);
  EXPECT_EQ(Found(longer + Text{1}), 300);
}

TEST_F(PrefixCacheTest, AnEarlierTurnGoesBeforeTheLastOne) {
  const Text turn = RandomText(rng_, 300);
  Leave(turn);
  const Text next = turn + RandomText(rng_, 100);
  cache_->Take(QueryOf(next));
  Leave(next);

  ASSERT_TRUE(cache_->FreeSlots(5));
  EXPECT_EQ(Found(next + Text{1}), 400);
  EXPECT_EQ(Found(turn + Text{1}), 0);
}

TEST_F(PrefixCacheTest, WhatIsLongUnusedAges) {
  const Text old = RandomText(rng_, 200);
  Leave(old);
  for (int i = 0; i < 40; ++i) Leave(RandomText(rng_, 150));

  EXPECT_EQ(Found(old + Text{1}), 0);
}

TEST_F(PrefixCacheTest, ACheckpointThatIsCopiedFromStays) {
  const Text text = RandomText(rng_, 200);
  Leave(text);
  PrefixCache::Hit hit = cache_->Take(QueryOf(text + Text{1}));

  EXPECT_FALSE(cache_->FreeSlots(6));
  EXPECT_EQ(cache_->num_idle_slots(), 0);
  hit = {};
  EXPECT_TRUE(cache_->FreeSlots(6));
}

TEST_F(PrefixCacheTest, ACopyTakesTheSlotOfWhatIsWorthLess) {
  for (int i = 0; i < 6; ++i) Leave(RandomText(rng_, 150));

  EXPECT_FALSE(cache_->SlotFor(0, 100).has_value());
  EXPECT_TRUE(cache_->SlotFor(0, 200).has_value());
  EXPECT_EQ(cache_->num_checkpoints(), 5);
}

}  // namespace
}  // namespace bole
