#include "common/descriptor_limit.h"

#include <sys/resource.h>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(DescriptorLimitTest, IsRaisedFromWhatAShellSetsToWhatTheSystemAllows) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);

  const size_t limit = RaiseDescriptorLimit();

  rlimit after;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(limit, before.rlim_max);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}

}  // namespace
}  // namespace bole
