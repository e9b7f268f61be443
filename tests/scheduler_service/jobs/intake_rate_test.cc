#include "scheduler_service/jobs/intake_rate.h"

#include <chrono>

#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class IntakeRateTest : public ::testing::Test {
 protected:
  // Something waits all the time, and `tokens` are taken in each second.
  void TakeIn(size_t tokens, int num_seconds) {
    rate_.SetWaiting(true, now_);
    for (int i = 0; i < num_seconds; ++i) {
      now_ += seconds(1);
      rate_.TookIn(tokens, now_);
    }
  }

  TimePoint now_{hours(1)};
  IntakeRate rate_;
};

TEST_F(IntakeRateTest, BeforeAnythingWasTakenInTheDelayIsASecond) {
  rate_.SetWaiting(true, now_);

  EXPECT_EQ(rate_.RetryDelay(1 << 20, now_), kFirstRetryDelay);
  EXPECT_EQ(rate_.RetryDelay(1 << 20, now_ + seconds(30)), kFirstRetryDelay);
}

TEST_F(IntakeRateTest, TheDelayIsWhatWaitsOverTheRate) {
  TakeIn(1000, 60);

  // A sum at the ends of seconds is above the mean by half a second in ten.
  EXPECT_NEAR(rate_.RetryDelay(5000, now_).count(), 5000, 300);
  EXPECT_NEAR(rate_.RetryDelay(20'000, now_).count(), 20'000, 1200);
}

TEST_F(IntakeRateTest, TheDelayIsBounded) {
  TakeIn(1000, 60);

  EXPECT_EQ(rate_.RetryDelay(0, now_), kMinRetryDelay);
  EXPECT_EQ(rate_.RetryDelay(1, now_), kMinRetryDelay);
  EXPECT_EQ(rate_.RetryDelay(1'000'000'000, now_), kMaxRetryDelay);
}

TEST_F(IntakeRateTest, WhatWasTakenInLatelyCounts) {
  TakeIn(100'000, 60);

  TakeIn(1000, 60);

  EXPECT_GT(rate_.RetryDelay(5000, now_), milliseconds(3000));
  EXPECT_LT(rate_.RetryDelay(5000, now_), milliseconds(5300));
}

TEST_F(IntakeRateTest, TheDelayGrowsWhileNothingIsTakenIn) {
  TakeIn(1000, 60);

  const milliseconds before = rate_.RetryDelay(1000, now_);
  const milliseconds later = rate_.RetryDelay(1000, now_ + seconds(10));
  const milliseconds last = rate_.RetryDelay(1000, now_ + seconds(100));

  EXPECT_GT(later, 2 * before);
  EXPECT_EQ(last, kMaxRetryDelay);
}

TEST_F(IntakeRateTest, TimesInWhichNothingWaitsDoNotSlowItDown) {
  TakeIn(1000, 60);
  const milliseconds before = rate_.RetryDelay(5000, now_);

  rate_.SetWaiting(false, now_);
  now_ += seconds(100);
  rate_.SetWaiting(true, now_);

  EXPECT_NEAR(rate_.RetryDelay(5000, now_).count(), before.count(), 1);
}

TEST_F(IntakeRateTest, WhatIsTakenInAtOnceTakesNoTime) {
  rate_.SetWaiting(true, now_);
  rate_.TookIn(100, now_);

  EXPECT_EQ(rate_.RetryDelay(1000, now_), kMinRetryDelay);
}

}  // namespace
}  // namespace bole
