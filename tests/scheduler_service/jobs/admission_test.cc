#include "scheduler_service/jobs/admission.h"

#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr AdmissionLimits kLimits{
    .max_requests = 3, .max_tokens = 100, .max_bytes = 1000};
constexpr AdmissionLoad kWaiting{.requests = 1, .tokens = 40, .bytes = 100};

// One request.
AdmissionLoad Asked(size_t tokens, size_t bytes) {
  return {.requests = 1, .tokens = tokens, .bytes = bytes};
}

TEST(AdmissionTest, EachBoundIsExactAndHasItsReason) {
  EXPECT_FALSE(CheckAdmission(kLimits, kWaiting, Asked(60, 900)).has_value());

  const auto tokens = CheckAdmission(kLimits, kWaiting, Asked(61, 900));
  const auto bytes = CheckAdmission(kLimits, kWaiting, Asked(60, 901));
  const auto requests = CheckAdmission(kLimits, {.requests = 3}, Asked(1, 1));

  ASSERT_TRUE(tokens && bytes && requests);
  EXPECT_EQ(tokens->reason, RefusalReason::kQueueTokens);
  EXPECT_EQ(tokens->message,
            "queue_tokens: 40 prompt tokens wait, of at most 100, and the "
            "request has at least 61");
  EXPECT_EQ(bytes->reason, RefusalReason::kQueueBytes);
  EXPECT_EQ(requests->reason, RefusalReason::kQueueRequests);
}

TEST(AdmissionTest, ARequestThatIsTooLargeByItselfIsTakenAlone) {
  EXPECT_FALSE(CheckAdmission(kLimits, {}, Asked(5000, 50'000)).has_value());
  EXPECT_TRUE(
      CheckAdmission(kLimits, {.requests = 1}, Asked(5000, 1)).has_value());
  EXPECT_TRUE(CheckAdmission({.max_requests = 0}, /*waiting=*/{}, Asked(1, 1))
                  .has_value());
}

}  // namespace
}  // namespace bole
