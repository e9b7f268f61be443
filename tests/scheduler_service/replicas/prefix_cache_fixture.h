// A prefix cache over a small worker's memory.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_FIXTURE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_FIXTURE_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"
#include "tests/testing/random_tree.h"

namespace bole {

using Text = std::vector<int32_t>;

inline constexpr int kPageSize = 16;

inline Text RandomText(std::mt19937& rng, int length) {
  Text text(length);
  for (int32_t& token : text) token = testing::UniformInt(rng, 0, 1000);
  return text;
}

inline Text operator+(Text a, const Text& b) {
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

}  // namespace bole

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_FIXTURE_H_
