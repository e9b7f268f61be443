#include "scheduler_service/replicas/round_pace.h"

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(RoundPaceTest, PrefillIsTimeOnTopOfARound) {
  RoundPace pace;
  EXPECT_EQ(pace.Expected(100), 0);

  pace.Took(0.010, 0);
  pace.Took(0.030, 100);

  EXPECT_DOUBLE_EQ(pace.round_seconds(), 0.010);
  EXPECT_DOUBLE_EQ(pace.token_seconds(), 0.0002);
  EXPECT_DOUBLE_EQ(pace.Expected(50), 0.020);
}

TEST(RoundPaceTest, ARoundWithPrefillStandsForOthersUntilOneWasSeen) {
  RoundPace pace;
  pace.Took(0.030, 100);
  EXPECT_DOUBLE_EQ(pace.round_seconds(), 0.030);
  EXPECT_EQ(pace.token_seconds(), 0);

  pace.Took(0.010, 0);
  EXPECT_DOUBLE_EQ(pace.round_seconds(), 0.010);
}

TEST(RoundPaceTest, LaterRoundsChangeItLittleByLittle) {
  RoundPace pace;
  pace.Took(0.010, 0);
  pace.Took(0.020, 0);
  EXPECT_DOUBLE_EQ(pace.round_seconds(), 0.012);
  for (int i = 0; i < 50; ++i) pace.Took(0.020, 0);
  EXPECT_NEAR(pace.round_seconds(), 0.020, 1e-6);

  pace.Took(0.010, 100);  // Faster than one without.
  EXPECT_EQ(pace.token_seconds(), 0);
}

}  // namespace
}  // namespace bole
