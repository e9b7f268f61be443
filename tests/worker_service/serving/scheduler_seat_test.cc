#include "worker_service/serving/scheduler_seat.h"

#include <chrono>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

SchedulerHello A(uint64_t epoch) {
  return {.name = "a:1", .instance = 0xa, .epoch = epoch};
}
SchedulerHello B(uint64_t epoch) {
  return {.name = "b:2", .instance = 0xb, .epoch = epoch};
}

class SchedulerSeatTest : public ::testing::Test {
 protected:
  absl::StatusCode Take(const SchedulerHello& hello) {
    return seat_.Take(hello, now_).code();
  }

  SchedulerSeat seat_{seconds(5)};
  SchedulerSeat::Time now_{seconds(1000)};
};

TEST_F(SchedulerSeatTest, WhoComesFirstIsSeatedWhateverItsEpoch) {
  EXPECT_EQ(Take(A(0)), absl::StatusCode::kOk);
}

TEST_F(SchedulerSeatTest, AnotherSchedulerIsToldWhoHoldsTheSeat) {
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kOk);
  now_ += milliseconds(1300);

  const absl::Status refused = seat_.Take(B(1'000'000), now_);

  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(refused.message()),
      HasSubstr("scheduler a:1 (instance a, epoch 7), heard 1.3 s ago"));
}

TEST_F(SchedulerSeatTest, ASchedulerThatLeavesMakesRoomAtOnce) {
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kOk);

  seat_.Leave();

  EXPECT_EQ(Take(B(1)), absl::StatusCode::kOk);
}

TEST_F(SchedulerSeatTest, SilenceCostsTheSeatAfterThePatienceAndNotBefore) {
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kOk);
  now_ += seconds(3);
  seat_.Heard(now_);

  now_ += seconds(5);
  EXPECT_EQ(Take(B(1)), absl::StatusCode::kUnavailable);

  now_ += milliseconds(1);
  EXPECT_EQ(Take(B(1)), absl::StatusCode::kOk);
}

TEST_F(SchedulerSeatTest, WhoLostTheSeatIsRefusedLikeAnyOther) {
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kOk);
  now_ += seconds(6);
  EXPECT_EQ(Take(B(1)), absl::StatusCode::kOk);

  EXPECT_EQ(Take(A(8)), absl::StatusCode::kUnavailable);
}

TEST_F(SchedulerSeatTest, ARefusedSchedulerDoesNotCountAsHeard) {
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kOk);
  now_ += seconds(4);
  EXPECT_EQ(Take(B(1)), absl::StatusCode::kUnavailable);

  now_ += seconds(2);

  EXPECT_EQ(Take(B(2)), absl::StatusCode::kOk);
}

TEST_F(SchedulerSeatTest, TheSameInstanceTakesOverWithAHigherEpochAlone) {
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kOk);

  EXPECT_EQ(Take(A(6)), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Take(A(8)), absl::StatusCode::kOk);
}

TEST_F(SchedulerSeatTest, AnEpochIsStaleAfterItsStreamHasEndedToo) {
  EXPECT_EQ(Take(A(7)), absl::StatusCode::kOk);
  seat_.Leave();

  EXPECT_EQ(Take(A(7)), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SchedulerSeatTest, SchedulersWithoutAnInstanceAreOneInstance) {
  EXPECT_EQ(Take({.epoch = 1}), absl::StatusCode::kOk);
  EXPECT_EQ(Take({.epoch = 2}), absl::StatusCode::kOk);
  EXPECT_EQ(Take(B(3)), absl::StatusCode::kUnavailable);

  seat_.Leave();
  EXPECT_EQ(Take(B(3)), absl::StatusCode::kOk);
  EXPECT_EQ(Take({.epoch = 9}), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace bole
