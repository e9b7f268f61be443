#include "scheduler_service/refusal.h"

#include <set>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(RefusalTest, EveryReasonHasANameOfItsOwnAndComesBackFromItsStatus) {
  std::set<std::string> names;
  for (const RefusalReason reason : kRefusalReasons) {
    const absl::Status status =
        WithReason(absl::UnavailableError("why"), reason);

    EXPECT_EQ(ReasonOf(status), reason);
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(status.message(), "why");
    EXPECT_NE(std::string(NameOf(reason)), "");
    names.insert(NameOf(reason));
  }
  EXPECT_EQ(names.size(), kRefusalReasons.size());
}

TEST(RefusalTest, OtherStatusesHaveNoReason) {
  EXPECT_FALSE(ReasonOf(absl::OkStatus()).has_value());
  EXPECT_FALSE(ReasonOf(absl::UnavailableError("queue_bytes: 1")).has_value());
}

TEST(RefusalTest, AFullBoundNamesItselfAndItsValues) {
  const absl::Status status = FullError(RefusalReason::kTooManyOpen, 5, 4);

  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "too_many_open: 5, of at most 4");
  EXPECT_EQ(ReasonOf(status), RefusalReason::kTooManyOpen);
}

}  // namespace
}  // namespace bole
