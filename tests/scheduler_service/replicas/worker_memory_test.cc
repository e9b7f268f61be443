#include "scheduler_service/replicas/worker_memory.h"

#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::UniformInt;

MemoryReferences ReferencesOf(const std::vector<PageLease>& leases) {
  MemoryReferences references;
  for (const PageLease& lease : leases) {
    references.pages.insert(references.pages.end(), lease.ids().begin(),
                            lease.ids().end());
  }
  return references;
}

TEST(WorkerMemoryTest, EverySlotIsHeldOnceAndComesBack) {
  WorkerMemory memory(3, 0);
  {
    std::vector<SlotLease> leases;
    std::set<SlotId> seen;
    while (std::optional<SlotLease> lease = memory.TakeSlot()) {
      EXPECT_TRUE(seen.insert(lease->id()).second);
      leases.push_back(*std::move(lease));
    }
    EXPECT_EQ(seen.size(), 3u);
    EXPECT_EQ(memory.slots().free, 0);
    leases.erase(leases.begin());
    EXPECT_EQ(memory.TakeSlot()->id(), SlotId(0));
  }
  EXPECT_EQ(memory.slots().free, 3);
  EXPECT_EQ(memory.Audit({}), "");
}

TEST(WorkerMemoryTest, ALeaseTakesWhatIsFree) {
  WorkerMemory memory(1, 5);
  PageLease first(memory);
  PageLease second(memory);

  EXPECT_TRUE(first.GrowTo(3));
  EXPECT_TRUE(first.GrowTo(2));
  EXPECT_EQ(first.size(), 3);
  EXPECT_FALSE(second.GrowTo(3));
  EXPECT_EQ(second.size(), 2);
  EXPECT_EQ(memory.pages().free, 0);
}

TEST(WorkerMemoryTest, AMovedLeaseIsGivenBackOnce) {
  WorkerMemory memory(2, 4);
  {
    PageLease pages(memory);
    pages.GrowTo(3);
    PageLease moved = std::move(pages);
    EXPECT_EQ(moved.size(), 3);
    PageLease other(memory);
    other.GrowTo(1);
    other = std::move(moved);
    EXPECT_EQ(other.size(), 3);
    SlotLease slot = *memory.TakeSlot();
    SlotLease next = *memory.TakeSlot();
    next = std::move(slot);
    EXPECT_EQ(next.id(), SlotId(0));
  }
  EXPECT_EQ(memory.pages().free, 4);
  EXPECT_EQ(memory.slots().free, 2);
}

TEST(WorkerMemoryTest, ASharedPageIsFreeWhenItsLastHolderIsGone) {
  WorkerMemory memory(1, 4);
  std::optional<PageLease> first(std::in_place, memory);
  first->GrowTo(3);
  std::optional<PageLease> second = first->Share(2);
  EXPECT_EQ(memory.pages().free, 1);
  MemoryReferences references = {.slots = {},
                                 .pages = {PageId(0), PageId(1), PageId(2)}};
  EXPECT_NE(memory.Audit(references), "");
  references.pages.insert(references.pages.end(), {PageId(0), PageId(1)});
  EXPECT_EQ(memory.Audit(references), "");

  first.reset();
  EXPECT_EQ(memory.pages().free, 2);
  EXPECT_EQ(memory.Audit({.slots = {}, .pages = second->ids()}), "");
  second.reset();
  EXPECT_EQ(memory.pages().free, 4);
}

TEST(WorkerMemoryTest, WhatTheCacheAloneHoldsIsCounted) {
  WorkerMemory memory(1, 4);
  std::optional<PageLease> request(std::in_place, memory);
  request->GrowTo(4);
  PageLease cache = request->Share(1, 2, PageHolder::kCache);
  EXPECT_EQ(memory.pages().cached, 0);

  PageLease rest = request->SplitAt(2);
  request.reset();
  EXPECT_TRUE(memory.IsCacheOnly(PageId(1)));
  EXPECT_FALSE(memory.IsCacheOnly(PageId(2)));
  EXPECT_EQ(memory.pages().free, 1);
  EXPECT_EQ(memory.pages().available(), 2);

  PageLease again = cache.Share(0, 1, PageHolder::kRequest);
  EXPECT_EQ(memory.pages().cached, 0);
  rest.Append(std::move(again));
  EXPECT_EQ(rest.ids(), (std::vector{PageId(2), PageId(3), PageId(1)}));
}

TEST(WorkerMemoryTest, TheAuditNamesWhatIsWrong) {
  WorkerMemory memory(2, 3);
  const SlotLease slot = *memory.TakeSlot();
  PageLease pages(memory);
  pages.GrowTo(2);
  const MemoryReferences right = {.slots = {slot.id()}, .pages = pages.ids()};
  ASSERT_EQ(memory.Audit(right), "");

  MemoryReferences lost = right;
  lost.pages.pop_back();
  EXPECT_EQ(memory.Audit(lost),
            "page 1 is not free, counts 1 holders and has 0");
  MemoryReferences twice = right;
  twice.pages.push_back(PageId(0));
  EXPECT_EQ(memory.Audit(twice),
            "page 0 is not free, counts 1 holders and has 2");
  MemoryReferences stolen = right;
  stolen.slots.push_back(SlotId(1));
  EXPECT_EQ(memory.Audit(stolen), "slot 1 is free, counts 0 holders and has 1");
}

TEST(WorkerMemoryTest, RandomLeasesNeverDisagreeWithTheAudit) {
  std::mt19937 rng(1);
  WorkerMemory memory(1, 40);
  std::vector<PageLease> leases;
  for (int i = 0; i < 3000; ++i) {
    const int last = static_cast<int>(leases.size()) - 1;
    const int action = UniformInt(rng, 0, 3);
    if (last < 0 || action == 0) {
      leases.emplace_back(memory);
    } else if (action == 1) {
      PageLease& lease = leases[UniformInt(rng, 0, last)];
      lease.GrowTo(lease.size() + UniformInt(rng, 0, 5));
    } else if (action == 2) {
      const PageLease& lease = leases[UniformInt(rng, 0, last)];
      leases.push_back(lease.Share(UniformInt(rng, 0, lease.size())));
    } else {
      std::swap(leases[UniformInt(rng, 0, last)], leases.back());
      leases.pop_back();
    }
    ASSERT_EQ(memory.Audit(ReferencesOf(leases)), "") << i;
  }
  leases.clear();
  EXPECT_EQ(memory.pages().free, 40);
}

TEST(WorkerMemoryDeathTest, ALeaseMustNotOutliveTheMemory) {
  std::optional<SlotLease> lease;
  EXPECT_DEATH(
      {
        WorkerMemory memory(1, 1);
        lease = memory.TakeSlot();
      },
      "slots");
}

}  // namespace
}  // namespace bole
