// The prefix cache beside a plain list of all that it should have.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"
#include "tests/scheduler_service/replicas/prefix_cache_fixture.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::UniformInt;

// What a row of a page has: the token of its position, and the one that the
// drafter's entry was made of.
struct Row {
  int32_t token = -1;
  int32_t drafted = -1;
};

// The cache beside a plain list of all prefixes that it should have, with pages
// that have contents.
class RandomPrefixCacheTest : public PrefixCacheTest {
 protected:
  struct Kept {
    std::string key;
    Text tokens;
    int prompt_length;
    bool has_drafter;
  };
  struct Running {
    std::string key;
    Text tokens;
    int prompt_length;
    SlotLease slot;
    PageLease pages;
    int undrafted;
    bool has_drafter;
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
  // Tokens from `from` on, and the drafter's entries of `seen` up to before
  // `unseen`.
  void Write(const PageLease& pages, const Text& tokens, int from, int seen,
             int unseen) {
    for (int i = from; i < std::ssize(tokens); ++i) {
      RowAt(pages, i) = {.token = tokens[i]};
    }
    for (int i = seen; i < std::min<int>(unseen, std::ssize(tokens)); ++i) {
      RowAt(pages, i).drafted = tokens[i];
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
    if (hit.from.has_drafter && i > 0 && i + hit.num_undrafted() <= position) {
      ASSERT_EQ(row.drafted, tokens[i]) << i << " of " << position;
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
    const int from = hit.from.position;
    const bool has_drafter = from == 0 || hit.from.has_drafter;
    const int undrafted = UniformInt(rng_, 0, std::min(20, length - from));
    Write(pages, tokens, from, std::max(from - hit.num_undrafted() + 1, 1),
          has_drafter ? length - undrafted + 1 : 0);
    running_.push_back({key, tokens, prompt_length, *memory_.TakeSlot(),
                        std::move(pages), undrafted, has_drafter});
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
               .num_undrafted = done.undrafted,
               .has_drafter = done.has_drafter});
  if (is_new) {
    kept_.push_back(
        {done.key, done.tokens, done.prompt_length, done.has_drafter});
  }
  for (Kept& kept : kept_) {
    const bool is_same = kept.key == done.key && kept.tokens == done.tokens;
    if (!is_same || (kept.has_drafter && !done.has_drafter)) continue;
    kept.prompt_length = done.prompt_length;
    kept.has_drafter = done.has_drafter;
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
