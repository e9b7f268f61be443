#include "scheduler_service/replicas/router.h"

#include <limits>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

// A worker that is free and empty, of which nothing is known.
RouteOption Free() {
  return {.has_room = true, .max_prefill_tokens = 100, .prefill_tokens = 50};
}

TEST(RouterTest, WithoutRoomThereIsNoWay) {
  EXPECT_EQ(Route({}), std::nullopt);
  const std::vector<RouteOption> full(3);
  EXPECT_EQ(Route(full), std::nullopt);
}

TEST(RouterTest, TheOneWithRoomIsTaken) {
  std::vector<RouteOption> options(3);
  options[1] = Free();
  options[1].seconds_until_free = 100;

  EXPECT_EQ(Route(options), 1u);
}

TEST(RouterTest, OfEqualWaitsTheFewestRequestsThenTheFirst) {
  std::vector<RouteOption> options(3, Free());
  options[0].num_running = 2;
  EXPECT_EQ(Route(options), 1u);
  options[2].num_running = 1;
  options[1].num_running = 2;
  EXPECT_EQ(Route(options), 2u);
}

TEST(RouterTest, TheWaitIsTheRoundOnItsWayAndThoseOfThePrefill) {
  RouteOption option = Free();
  option.seconds_until_free = 0.5;
  option.round_seconds = 0.25;
  EXPECT_DOUBLE_EQ(ExpectedWait(option), 0.5 + 0.25);
  option.prefill_ahead = 200;
  EXPECT_DOUBLE_EQ(ExpectedWait(option), 0.5 + 3 * 0.25);
  option.prefill_tokens = 101;
  EXPECT_DOUBLE_EQ(ExpectedWait(option), 0.5 + 4 * 0.25);
  option.token_seconds = 0.001;
  EXPECT_DOUBLE_EQ(ExpectedWait(option), 0.5 + 4 * 0.25 + 301 * 0.001);
}

TEST(RouterTest, AFasterWorkerIsWorthWaitingFor) {
  std::vector<RouteOption> options(2, Free());
  options[0].round_seconds = 1;
  options[1].round_seconds = 0.3;
  options[1].seconds_until_free = 0.3;
  EXPECT_EQ(Route(options), 1u);

  options[1].seconds_until_free = 0.4;  // A little sooner is not enough.
  EXPECT_EQ(Route(options), 0u);
}

TEST(RouterTest, NobodyWaitsForAWorkerThatIsLate) {
  std::vector<RouteOption> options(2, Free());
  options[0].round_seconds = 100;
  options[1].seconds_until_free = std::numeric_limits<double>::infinity();

  EXPECT_EQ(Route(options), 0u);
}

TEST(RouterTest, ACachedPrefixSavesRounds) {
  std::vector<RouteOption> options(2, Free());
  for (RouteOption& option : options) {
    option.round_seconds = 1;
    option.prefill_tokens = 1000;
  }
  options[1].num_running = 5;
  options[1].cached_tokens = 600;

  EXPECT_EQ(Route(options), 1u);
  EXPECT_DOUBLE_EQ(ExpectedWait(options[1]), 4);
}

}  // namespace
}  // namespace bole
