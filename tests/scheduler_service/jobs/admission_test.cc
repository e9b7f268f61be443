#include "scheduler_service/jobs/admission.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

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
  EXPECT_FALSE(
      CheckAdmission(kLimits, kWaiting, {}, Asked(60, 900)).has_value());

  const auto tokens = CheckAdmission(kLimits, kWaiting, {}, Asked(61, 900));
  const auto bytes = CheckAdmission(kLimits, kWaiting, {}, Asked(60, 901));
  const auto requests =
      CheckAdmission(kLimits, {.requests = 3}, {}, Asked(1, 1));

  ASSERT_TRUE(tokens && bytes && requests);
  EXPECT_EQ(tokens->reason, RefusalReason::kQueueTokens);
  EXPECT_EQ(tokens->message,
            "queue_tokens: 40 prompt tokens wait, of at most 100, and the "
            "request has at least 61");
  EXPECT_EQ(bytes->reason, RefusalReason::kQueueBytes);
  EXPECT_EQ(requests->reason, RefusalReason::kQueueRequests);
}

TEST(AdmissionTest, ARequestThatIsTooLargeByItselfIsTakenAlone) {
  EXPECT_FALSE(
      CheckAdmission(kLimits, {}, {}, Asked(5000, 50'000)).has_value());
  EXPECT_TRUE(
      CheckAdmission(kLimits, {.requests = 1}, {}, Asked(5000, 1)).has_value());
  EXPECT_TRUE(
      CheckAdmission({.max_requests = 0}, {}, {}, Asked(1, 1)).has_value());
  EXPECT_TRUE(
      CheckAdmission(kLimits, {}, {.requests = 1}, Asked(5000, 1)).has_value());
}

// How many requests of each tenant are taken if all send without end, in turn
// from `first` on.
std::vector<size_t> Fill(size_t bound, std::vector<size_t> waiting) {
  const AdmissionLimits limits{.max_requests = bound};
  for (bool any = true; any;) {
    any = false;
    const size_t all = std::accumulate(waiting.begin(), waiting.end(), 0ul);
    for (size_t& own : waiting) {
      if (CheckAdmission(limits, {.requests = own}, {.requests = all - own},
                         Asked(1, 1))) {
        continue;
      }
      ++own;
      any = true;
      break;
    }
  }
  return waiting;
}

TEST(AdmissionTest, ATenantAloneFillsTheQueueAndANewcomerStillFindsRoom) {
  EXPECT_EQ(Fill(900, {0}), std::vector<size_t>({900}));
  EXPECT_EQ(Fill(900, {900, 0}), std::vector<size_t>({900, 100}));
  const auto refused =
      CheckAdmission(kLimits, {.requests = 1, .tokens = 40},
                     {.requests = 1, .tokens = 45}, Asked(21, 1));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->message,
            "queue_tokens: 40 prompt tokens wait, of at most 60 beside 45 of "
            "other tenants, and the request has at least 21");
}

TEST(AdmissionTest, TheOneThatIsOverItsPartWaitsUntilItHasShrunk) {
  const AdmissionLimits limits{.max_requests = 900};
  EXPECT_TRUE(
      CheckAdmission(limits, {.requests = 820}, {.requests = 90}, Asked(1, 1)));
  EXPECT_FALSE(
      CheckAdmission(limits, {.requests = 819}, {.requests = 90}, Asked(1, 1)));
}

TEST(AdmissionTest, ManyTenantsTogetherWaitWithAnEighthMoreAtMost) {
  for (const size_t bound : {1, 3, 8, 9, 100, 1024}) {
    std::vector<size_t> waiting(40, 0);
    for (size_t tenants = 1; tenants <= waiting.size(); ++tenants) {
      std::vector<size_t> first(waiting.begin(), waiting.begin() + tenants);
      first = Fill(bound, std::move(first));
      std::copy(first.begin(), first.end(), waiting.begin());
    }
    const size_t all = std::accumulate(waiting.begin(), waiting.end(), 0ul);
    EXPECT_GE(all, bound);
    EXPECT_LE(all, bound * 9 / 8) << bound;
  }
}

}  // namespace
}  // namespace bole
