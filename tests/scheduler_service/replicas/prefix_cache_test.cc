#include "scheduler_service/replicas/prefix_cache.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "gtest/gtest.h"
#include "scheduler_service/replicas/worker_memory.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::UniformInt;

using Text = std::vector<int32_t>;

constexpr int kPageSize = 16;

Text RandomText(std::mt19937& rng, int length) {
  Text text(length);
  for (int32_t& token : text) token = UniformInt(rng, 0, 1000);
  return text;
}

Text operator+(Text a, const Text& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A cache, and requests that prefill and leave at once.
class PrefixCacheTest : public ::testing::Test {
 protected:
  static PrefixCacheOptions Options() {
    PrefixCacheOptions options;
    options.page_size = kPageSize;
    return options;
  }

  static CacheQuery QueryOf(const Text& tokens, const std::string& key = "") {
    return {.key = key,
            .tokens = tokens,
            .prompt_length = static_cast<int>(tokens.size())};
  }
  PrefixCache::Match Look(const Text& tokens, const std::string& key = "") {
    return cache_->Look(QueryOf(tokens, key));
  }
  int Found(const Text& tokens, const std::string& key = "") {
    return Look(tokens, key).position;
  }
  // What the cache keeps of a request that ran all of `tokens`.
  void Leave(const Text& tokens, const std::string& key = "") {
    const int position = static_cast<int>(tokens.size());
    const int needed = (position + kPageSize - 1) / kPageSize;
    ASSERT_TRUE(cache_->FreeSlots(1) && cache_->FreePages(needed));
    {
      PageLease pages(memory_);
      ASSERT_TRUE(pages.GrowTo(needed));
      cache_->Add(key, tokens, pages, *memory_.TakeSlot(),
                  {.position = position, .prompt_length = position});
    }
    ExpectSound();
  }
  void ExpectSound(MemoryReferences others = {}) {
    cache_->AddReferences(others);
    EXPECT_EQ(memory_.Audit(others), "");
    EXPECT_EQ(cache_->Audit(), "");
  }

  std::mt19937 rng_{1};
  WorkerMemory memory_{6, 64};
  std::optional<PrefixCache> cache_{std::in_place, memory_, Options()};
};

TEST_F(PrefixCacheTest, ATextGoesOnWhereAnotherEnded) {
  const Text first = RandomText(rng_, 100);
  Leave(first);
  const Text next = first + RandomText(rng_, 30);

  EXPECT_EQ(Found(next), 100);
  const PrefixCache::Hit hit = cache_->Take(QueryOf(next));
  EXPECT_EQ(hit.from.position, 100);
  EXPECT_EQ(hit.pages->size(), 7);
  // The drafter's entry of position 99 depends on what follows.
  EXPECT_EQ(hit.first_written, 6);
  EXPECT_EQ(Found(first), 0) << "a token has to be left to run";
  EXPECT_EQ(Found(RandomText(rng_, 130)), 0);
}

TEST_F(PrefixCacheTest, WhatTheDrafterHasNotSeenIsCopied) {
  const Text first = RandomText(rng_, 100);
  PageLease pages(memory_);
  pages.GrowTo(7);
  cache_->Add("", first, pages, *memory_.TakeSlot(),
              {.position = 100, .prompt_length = 100, .num_undrafted = 20});

  const PrefixCache::Hit hit = cache_->Take(QueryOf(first + Text{1}));
  EXPECT_EQ(hit.from.num_undrafted, 20);
  EXPECT_EQ(hit.num_undrafted(), 20);
  EXPECT_EQ(hit.first_written, (100 - 20) / kPageSize);
}

TEST_F(PrefixCacheTest, EqualBeginningsShareTheirPages) {
  const Text common = RandomText(rng_, 161);
  Leave(common + RandomText(rng_, 15));  // 11 pages, 10 of them common.
  Leave(common + RandomText(rng_, 15));

  EXPECT_EQ(memory_.pages().total - memory_.pages().free, 12);
  EXPECT_EQ(memory_.pages().cached, 12);
}

TEST_F(PrefixCacheTest, APageIsKnownByTheTokenThatFollowsIt) {
  const Text common = RandomText(rng_, 160);
  Leave(common + Text{2001} + RandomText(rng_, 15));
  Leave(common + Text{2002} + RandomText(rng_, 15));

  // Nine pages are common; the tenth has the drafter's entry of 159.
  EXPECT_EQ(memory_.pages().cached, 9 + 2 * 2);
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

// What a row of a page has: the token of its position, and the one after it,
// which the drafter's entry depends on.
struct Row {
  int32_t token = -1;
  int32_t next = -1;
};

// The cache beside a plain list of all prefixes that it should have, with pages
// that have contents.
class RandomPrefixCacheTest : public PrefixCacheTest {
 protected:
  struct Kept {
    std::string key;
    Text tokens;
    int prompt_length;
  };
  struct Running {
    std::string key;
    Text tokens;
    int prompt_length;
    SlotLease slot;
    PageLease pages;
    int undrafted;
  };

  int Expected(const CacheQuery& query) const {
    int best = 0;
    for (const Kept& kept : kept_) {
      const int length = static_cast<int>(kept.tokens.size());
      const bool is_prefix = kept.key == query.key &&
                             length < std::ssize(query.tokens) &&
                             std::equal(kept.tokens.begin(), kept.tokens.end(),
                                        query.tokens.begin());
      const bool agrees = length <= query.prompt_length ||
                          kept.prompt_length == query.prompt_length;
      if (is_prefix && agrees) best = std::max(best, length);
    }
    return best;
  }
  // Those that went are no longer expected.
  void ForgetEvicted() {
    std::erase_if(kept_, [&](const Kept& kept) {
      const Text more = kept.tokens + Text{5000};
      return cache_
                 ->Look({.key = kept.key,
                         .tokens = more,
                         .prompt_length = kept.prompt_length})
                 .position != std::ssize(kept.tokens);
    });
    EXPECT_EQ(std::ssize(kept_), cache_->num_checkpoints());
  }
  Row& RowAt(const PageLease& pages, int position) {
    return rows_[pages.ids()[position / kPageSize].value()]
                [position % kPageSize];
  }
  void Write(const PageLease& pages, const Text& tokens, int from) {
    for (int i = from; i < std::ssize(tokens); ++i) {
      RowAt(pages, i) = {
          .token = tokens[i],
          .next = i + 1 < std::ssize(tokens) ? tokens[i + 1] : -1};
    }
  }
  // The request takes what is there, and runs the rest.
  void Start();
  void Finish(int i);
  void CheckHit(const PrefixCache::Hit& hit, const Text& tokens);

  std::vector<std::vector<Row>> rows_ =
      std::vector<std::vector<Row>>(64, std::vector<Row>(kPageSize));
  std::vector<Kept> kept_;
  std::vector<Running> running_;
  std::vector<Text> texts_ = {RandomText(rng_, 150)};
  int64_t num_hits_ = 0;
};

void RandomPrefixCacheTest::CheckHit(const PrefixCache::Hit& hit,
                                     const Text& tokens) {
  const int position = hit.from.position;
  for (int i = 0; i < position; ++i) {
    const Row& row = RowAt(*hit.pages, i);
    ASSERT_EQ(row.token, tokens[i]) << i << " of " << position;
    if (i + hit.num_undrafted() < position) {
      ASSERT_EQ(row.next, tokens[i + 1]) << i << " of " << position;
    }
  }
}

void RandomPrefixCacheTest::Start() {
  const Text& base = texts_[UniformInt(rng_, 0, std::ssize(texts_) - 1)];
  const int length_of_base = static_cast<int>(base.size());
  const int common = UniformInt(rng_, 0, 1) == 0
                         ? length_of_base
                         : UniformInt(rng_, 0, length_of_base);
  Text tokens = Text(base.begin(), base.begin() + common) +
                RandomText(rng_, UniformInt(rng_, 2, 60));
  if (tokens.size() > 250) tokens.resize(150);
  texts_.push_back(tokens);
  if (texts_.size() > 4) texts_.erase(texts_.begin());
  const std::string key = UniformInt(rng_, 0, 4) == 0 ? "other" : "";
  const int length = static_cast<int>(tokens.size());
  const int prompt_length =
      UniformInt(rng_, 0, 3) == 0 ? UniformInt(rng_, 1, length) : length;
  const CacheQuery query = {
      .key = key, .tokens = tokens, .prompt_length = prompt_length};
  ASSERT_EQ(cache_->Look(query).position, Expected(query));
  PrefixCache::Hit hit = cache_->Take(query);
  ASSERT_EQ(hit.from.position, Expected(query));
  num_hits_ += hit.from.position > 0 ? 1 : 0;
  CheckHit(hit, tokens);

  PageLease pages(memory_);
  if (hit.pages) pages.Append(hit.pages->Share(hit.first_written));
  const int needed = (length + kPageSize - 1) / kPageSize;
  const bool has_room = cache_->FreeSlots(1) &&
                        cache_->FreePages(needed - pages.size()) &&
                        pages.GrowTo(needed);
  if (has_room) {
    for (int i = hit.first_written; hit.pages && i < hit.pages->size(); ++i) {
      rows_[pages.ids()[i].value()] = rows_[hit.pages->ids()[i].value()];
    }
    Write(pages, tokens, std::max(hit.from.position - hit.num_undrafted(), 0));
    running_.push_back({key, tokens, prompt_length, *memory_.TakeSlot(),
                        std::move(pages), UniformInt(rng_, 0, 20)});
  }
  hit = {};
  ForgetEvicted();
}

void RandomPrefixCacheTest::Finish(int i) {
  std::swap(running_[i], running_.back());
  Running done = std::move(running_.back());
  running_.pop_back();
  const int length = static_cast<int>(done.tokens.size());
  const bool is_new =
      std::none_of(kept_.begin(), kept_.end(), [&](const Kept& kept) {
        return kept.key == done.key && kept.tokens == done.tokens;
      });
  cache_->Add(done.key, done.tokens, done.pages, std::move(done.slot),
              {.position = length,
               .prompt_length = done.prompt_length,
               .num_undrafted = std::min(done.undrafted, length - 1)});
  if (is_new) kept_.push_back({done.key, done.tokens, done.prompt_length});
  for (Kept& kept : kept_) {
    if (kept.key == done.key && kept.tokens == done.tokens) {
      kept.prompt_length = done.prompt_length;
    }
  }
}

TEST_F(RandomPrefixCacheTest, FindsWhatAListOfAllPrefixesFinds) {
  for (int i = 0; i < 3000 && !HasFatalFailure(); ++i) {
    const int last = static_cast<int>(running_.size()) - 1;
    const int action = UniformInt(rng_, 0, 9);
    if (last < 0 || (action < 5 && last < 3)) {
      Start();
    } else if (action < 9) {
      Finish(UniformInt(rng_, 0, last));
    } else {
      cache_->FreePages(memory_.pages().free + UniformInt(rng_, 0, 10));
      ForgetEvicted();
    }
    MemoryReferences references;
    for (const Running& one : running_) {
      references.slots.push_back(one.slot.id());
      references.pages.insert(references.pages.end(), one.pages.ids().begin(),
                              one.pages.ids().end());
    }
    ExpectSound(std::move(references));
  }
  EXPECT_GT(num_hits_, 200);
  // All that the cache alone holds is there for others.
  const int idle = memory_.pages().available();
  EXPECT_TRUE(cache_->FreePages(idle));
  EXPECT_EQ(memory_.pages().cached, 0);
  running_.clear();
  cache_.reset();
  EXPECT_EQ(memory_.pages().free, 64);
}

}  // namespace
}  // namespace bole
