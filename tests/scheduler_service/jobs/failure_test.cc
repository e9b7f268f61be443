#include "scheduler_service/jobs/failure.h"

#include <set>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(FailureTest, TheReasonTravelsBesideTheMessage) {
  std::set<std::string> names;
  for (const FailureReason reason : kFailureReasons) {
    names.insert(NameOf(reason));

    const absl::Status status = Failed(reason, "slow_reader: no");

    EXPECT_EQ(FailureReasonOf(status), reason);
    EXPECT_EQ(status.message(), "slow_reader: no");
    EXPECT_NE(status.code(), absl::StatusCode::kUnknown);
  }
  EXPECT_EQ(names.size(), kFailureReasons.size());
  EXPECT_EQ(names.count(""), 0u);
}

TEST(FailureTest, OtherErrorsHaveNoReason) {
  EXPECT_EQ(FailureReasonOf(absl::CancelledError("cancelled")), std::nullopt);
  EXPECT_EQ(FailureReasonOf(absl::OkStatus()), std::nullopt);
}

}  // namespace
}  // namespace bole
