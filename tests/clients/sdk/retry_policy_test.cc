#include "clients/sdk/retry_policy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace bole {
namespace {

using std::chrono::milliseconds;

const Retries::TimePoint kNow{};
const CallError kGone{.code = grpc::StatusCode::UNAVAILABLE};
const CallError kFull{.code = grpc::StatusCode::RESOURCE_EXHAUSTED,
                      .reason = "QUEUE_REQUESTS",
                      .retry_after = milliseconds(1000)};

std::optional<milliseconds> First(const CallError& error, bool progressed) {
  return Retries({}, std::nullopt, 1)
      .DelayAfter(error, progressed, progressed, kNow);
}

TEST(RetriesTest, BackoffDoublesUpToTheLongestAndLeavesOutAtMostAHalf) {
  Retries retries({.max_attempts = 7,
                   .initial_backoff = milliseconds(100),
                   .max_backoff = milliseconds(500)},
                  std::nullopt, 1);
  for (const int longest : {100, 200, 400, 500, 500, 500}) {
    const auto delay = retries.DelayAfter(kGone, false, false, kNow);
    ASSERT_TRUE(delay.has_value());
    EXPECT_GE(delay->count(), longest / 2);
    EXPECT_LE(delay->count(), longest);
  }
  EXPECT_FALSE(retries.DelayAfter(kGone, false, false, kNow).has_value());
}

TEST(RetriesTest, ClientsOfOneFailureDoNotComeBackTogether) {
  Retries one({.initial_backoff = milliseconds(100000)}, std::nullopt, 1);
  Retries other({.initial_backoff = milliseconds(100000),
                 .max_backoff = milliseconds(100000)},
                std::nullopt, 2);

  EXPECT_NE(one.DelayAfter(kGone, false, false, kNow),
            other.DelayAfter(kGone, false, false, kNow));
}

TEST(RetriesTest, TheServersTimeIsWaitedForAndHardlyMore) {
  const auto delay = First(kFull, /*progressed=*/false);

  ASSERT_TRUE(delay.has_value());
  EXPECT_GE(delay->count(), 1000);
  EXPECT_LE(delay->count(), 1100);
}

TEST(RetriesTest, NothingIsSentAgainAtTheDeadline) {
  Retries retries({}, kNow + milliseconds(1000), 1);

  EXPECT_FALSE(retries.DelayAfter(kFull, false, false, kNow).has_value());
  EXPECT_TRUE(retries.DelayAfter(kGone, false, false, kNow).has_value());
}

TEST(RetriesTest, WhatTheServerMeansIsNotTriedAgain) {
  for (int code = 1; code <= 16; ++code) {
    const CallError error{.code = static_cast<grpc::StatusCode>(code),
                          .reason = "SAID"};
    EXPECT_EQ(First(error, false).has_value(),
              code == grpc::StatusCode::UNAVAILABLE)
        << code;
  }
  EXPECT_FALSE(First({.code = grpc::StatusCode::RESOURCE_EXHAUSTED,
                      .reason = "SLOW_READER"},
                     true)
                   .has_value());
  EXPECT_FALSE(First(kFull, /*progressed=*/true).has_value());
}

TEST(RetriesTest, WhatGrpcMakesOfABrokenConnectionIsTriedAgain) {
  EXPECT_TRUE(First({.code = grpc::StatusCode::CANCELLED}, true).has_value());
  EXPECT_TRUE(First({.code = grpc::StatusCode::INTERNAL,
                     .message = "Received RST_STREAM with error code 2"},
                    true)
                  .has_value());
  EXPECT_FALSE(First({.code = grpc::StatusCode::INTERNAL}, true).has_value());
}

TEST(RetriesTest, WhatIsNewBetweenTwoFailuresCountsAnew) {
  Retries retries({.max_attempts = 1, .max_resumes = 2}, std::nullopt, 1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(retries.DelayAfter(kGone, true, true, kNow).has_value());
  }
  EXPECT_TRUE(retries.DelayAfter(kGone, true, false, kNow).has_value());
  EXPECT_FALSE(retries.DelayAfter(kGone, true, false, kNow).has_value());
  EXPECT_FALSE(Retries({.max_attempts = 1}, std::nullopt, 1)
                   .DelayAfter(kGone, false, false, kNow)
                   .has_value());
}

}  // namespace
}  // namespace bole
