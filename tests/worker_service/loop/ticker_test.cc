#include "worker_service/loop/ticker.h"

#include <atomic>
#include <chrono>
#include <future>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(TickerTest, TicksUntilItIsDestroyed) {
  std::atomic<int> ticks{0};
  std::promise<void> third;
  {
    const Ticker ticker(std::chrono::milliseconds(1), [&] {
      if (++ticks == 3) third.set_value();
    });
    third.get_future().wait();
  }

  const int at_end = ticks;

  EXPECT_GE(at_end, 3);
  EXPECT_EQ(ticks, at_end);
}

TEST(TickerTest, EndsAtOnceHoweverLongTheInterval) {
  int ticks = 0;

  {
    const Ticker ticker(std::chrono::hours(1), [&] { ++ticks; });
  }

  EXPECT_EQ(ticks, 0);
}

}  // namespace
}  // namespace bole
