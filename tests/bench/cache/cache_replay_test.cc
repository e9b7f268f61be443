#include "tests/bench/cache/cache_replay.h"

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace bole::bench {
namespace {

// Conversations of a few turns, a part of which is never gone on with.
std::vector<Conversation> MakeConversations() {
  std::mt19937_64 rng(3);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % (high - low + 1));
  };
  std::vector<Conversation> conversations(20);
  for (Conversation& conversation : conversations) {
    std::vector<Segment> history = {{.seed = 0, .length = 200}};
    for (int turn = pick(1, 8); turn > 0; --turn) {
      history.push_back(
          {.seed = (rng() >> 40) << 16, .length = pick(100, 700)});
      const Segment answer = {.seed = (rng() >> 40) << 16,
                              .length = pick(10, 200)};
      conversation.push_back({.prompt = history,
                              .answer = answer,
                              .think_seconds = 0.1 * pick(10, 100)});
      history.push_back(answer);
    }
  }
  return conversations;
}

class CacheReplayTest : public ::testing::Test {
 protected:
  CacheReplay RunWith(double factor, Eviction eviction) const {
    CacheMachine machine = machine_;
    machine.eviction = eviction;
    const WorkingSet set = WorkingSetOf(conversations_, load_, machine);
    machine.num_slots = static_cast<int>(set.slots / factor);
    machine.num_pages = static_cast<int>(set.pages / factor);
    return Replay(conversations_, load_, machine);
  }
  CacheReplay Unlimited() const {
    CacheMachine machine = machine_;
    machine.num_slots = 20'000;
    machine.num_pages = 50'000;
    return Replay(conversations_, load_, machine);
  }

  const std::vector<Conversation> conversations_ = MakeConversations();
  const CacheMachine machine_{.slot_bytes = 1, .page_bytes = 0.05};
  const CacheLoad load_{
      .sessions_per_second = 2, .num_sessions = 200, .num_ignored = 60};
};

TEST_F(CacheReplayTest, WhatFitsTwiceIsFound) {
  const CacheReplay best = Unlimited();
  ASSERT_EQ(best.evicted, 0);
  ASSERT_GT(best.hit_tokens, best.prompt_tokens / 2);

  const CacheReplay got = RunWith(0.5, Eviction::kCostPerByte);
  EXPECT_GT(static_cast<double>(got.hit_tokens),
            0.97 * static_cast<double>(best.hit_tokens));
}

TEST_F(CacheReplayTest, WhatDoesNotFitSavesNoLessThanByAge) {
  for (const double factor : {1.0, 2.0, 3.0}) {
    const CacheReplay by_cost = RunWith(factor, Eviction::kCostPerByte);
    const CacheReplay by_age = RunWith(factor, Eviction::kLru);
    EXPECT_GT(by_cost.evicted, 0);
    EXPECT_EQ(by_cost.prompt_tokens, by_age.prompt_tokens);
    // One conversation that is lost or kept makes a thousandth.
    EXPECT_GE(by_cost.saved_seconds, 0.995 * by_age.saved_seconds) << factor;
  }
}

TEST_F(CacheReplayTest, TheWorkingSetIsThatOfAllWhoAreThere) {
  const std::vector<Conversation> one = {
      {{.prompt = {{.seed = 1, .length = 640}}, .answer = {.length = 64}}}};
  const WorkingSet set =
      WorkingSetOf(one, {.sessions_per_second = 1e9, .num_sessions = 4},
                   {.page_size = 64, .slot_bytes = 100, .page_bytes = 10});

  EXPECT_EQ(set.slots, 4);
  EXPECT_EQ(set.pages, 4 * 12);
}

TEST_F(CacheReplayTest, AWindowForgetsWhoThinksLongAndKeepsWhoIsOver) {
  const std::vector<Conversation> one = {
      {{.prompt = {{.seed = 1, .length = 640}}, .answer = {.length = 64}},
       {.prompt = {{.seed = 1, .length = 640}, {.seed = 0, .length = 64}},
        .answer = {.length = 64},
        .think_seconds = 50}}};
  const CacheMachine machine = {.page_size = 64};
  // One conversation comes for each second, and two seconds are spent running.
  const CacheLoad load = {.sessions_per_second = 1, .num_sessions = 400};
  const auto mean = [&](std::optional<double> window) {
    return WorkingSetOf(one, load, machine, window).mean;
  };
  const double live = mean(std::nullopt);

  EXPECT_GT(mean(100), 1.5 * live);
  EXPECT_LT(mean(10), 0.6 * live);
}

}  // namespace
}  // namespace bole::bench
