#include "worker_service/ranks/round_agreement.h"

#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kLong{60000};

StepResult RoundOf(int round, int32_t token) {
  StepResult result;
  result.round = round;
  result.sequences.resize(2);
  result.sequences[1].emitted.emplace_back().token = token;
  return result;
}

TEST(RoundAgreementTest, RoundsThatAreTheSameAgreeInTheirOrder) {
  RoundAgreement agreement(3, kLong);
  std::thread other([&] {
    for (int round = 0; round < 50; ++round) {
      agreement.Say(2, RoundOf(round, 7 + round));
    }
  });
  for (int round = 0; round < 50; ++round) {
    agreement.Say(1, RoundOf(round, 7 + round));
  }
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(agreement.Compare(RoundOf(round, 7 + round)), absl::OkStatus());
  }
  other.join();
}

TEST(RoundAgreementTest, ARankThatDiffersIsNamed) {
  RoundAgreement agreement(3, kLong);
  agreement.Say(1, RoundOf(4, 7));
  agreement.Say(2, RoundOf(4, 8));
  EXPECT_EQ(agreement.Compare(RoundOf(4, 7)),
            absl::InternalError(
                "rank 2 differs from rank 0 in round 4, in sequence 1"));
}

TEST(RoundAgreementTest, ARankThatLeavesIsNotWaitedFor) {
  RoundAgreement agreement(2, kLong);
  agreement.Say(1, RoundOf(0, 7));
  agreement.Leave(1);
  EXPECT_EQ(agreement.Compare(RoundOf(0, 7)), absl::OkStatus());
  const absl::Status status = agreement.Compare(RoundOf(1, 7));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1 has no result for round 1"));
}

TEST(RoundAgreementTest, ARankThatIsLateIsNamed) {
  RoundAgreement agreement(2, std::chrono::milliseconds(20));
  const absl::Status status = agreement.Compare(RoundOf(0, 7));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1 gave no result"));
}

}  // namespace
}  // namespace bole
