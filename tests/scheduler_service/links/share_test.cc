#include "scheduler_service/links/share.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(ShareTest, SharesAddUpAndAreAsEqualAsCanBe) {
  for (int workers = 0; workers <= 12; ++workers) {
    for (int of = 1; of <= 7; ++of) {
      SCOPED_TRACE(testing::Message() << workers << " workers for " << of);
      int sum = 0;
      int before = workers;
      for (int rank = 0; rank < of; ++rank) {
        const int share = ShareOf(workers, {.rank = rank, .of = of});
        EXPECT_GE(share, workers / of);
        EXPECT_LE(share, (workers + of - 1) / of);
        EXPECT_LE(share, before);
        before = share;
        sum += share;
      }
      EXPECT_EQ(sum, workers);
    }
  }
}

TEST(ShareTest, APlaceIsReadFromOneOn) {
  const absl::StatusOr<Place> first = ParsePlace("1/2");
  const absl::StatusOr<Place> last = ParsePlace("1000/1000");

  ASSERT_TRUE(first.ok() && last.ok());
  EXPECT_EQ(*first, (Place{.rank = 0, .of = 2}));
  EXPECT_EQ(*last, (Place{.rank = 999, .of = 1000}));
}

TEST(ShareTest, WhatIsNoPlaceIsRefusedWithItsText) {
  for (const std::string text :
       {"", "1", "/", "0/2", "3/2", "-1/2", "1/2/3", "a/b", "1/1001"}) {
    const absl::Status status = ParsePlace(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_NE(status.message().find("'" + text + "'"), std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace bole
