#include "common/check.h"

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(CheckTest, PassesOnATrueConditionAndEvaluatesItOnce) {
  int evaluations = 0;

  BOLE_CHECK(++evaluations > 0);

  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, StopsAndNamesThePlaceAndTheCondition) {
  const int pages = 3;

  EXPECT_DEATH(BOLE_CHECK(pages == 4),
               "tests/common/check_test\\.cc:[0-9]+: check failed: pages == 4");
}

TEST(CheckDeathTest, DcheckStopsOnlyWithoutNdebug) {
  EXPECT_DEBUG_DEATH(BOLE_DCHECK(1 + 1 == 3), "check failed: 1 \\+ 1 == 3");
}

TEST(CheckTest, DcheckDoesNotEvaluateWithNdebug) {
  int evaluations = 0;

  BOLE_DCHECK(++evaluations > 0);

#ifdef NDEBUG
  EXPECT_EQ(evaluations, 0);
#else
  EXPECT_EQ(evaluations, 1);
#endif
}

TEST(CheckTest, IsOneStatementInAnIfWithElse) {
  bool reached_else = false;

  if (reached_else) {
    BOLE_CHECK(false);
  } else {
    reached_else = true;
  }

  EXPECT_TRUE(reached_else);
}

}  // namespace
}  // namespace bole
