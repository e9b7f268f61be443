#include "worker_service/eval/acceptance_profile.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

std::vector<AcceptedRound> Rounds(const std::vector<int>& tokens) {
  std::vector<AcceptedRound> rounds;
  rounds.reserve(tokens.size());
  for (const int t : tokens) rounds.push_back({.tokens = t, .promised = 2});
  return rounds;
}

TEST(AcceptanceProfileTest, CountsRoundsAndTheirTokens) {
  const std::vector<std::vector<AcceptedRound>> requests = {
      Rounds({1, 3, 1, 3}), {}, Rounds({4})};

  const AcceptanceProfile profile = ProfileOf(requests);

  EXPECT_EQ(profile.requests, 2);
  EXPECT_EQ(profile.rounds, 5);
  EXPECT_DOUBLE_EQ(profile.mean, 12.0 / 5);
  EXPECT_DOUBLE_EQ(profile.promised, 2);
  EXPECT_NEAR(profile.deviation, std::sqrt(36.0 / 5 - 2.4 * 2.4), 1e-12);
  EXPECT_EQ(profile.share, (std::vector<double>{0.4, 0, 0.4, 0.2}));
}

// Rounds that take turns are each other's opposites, and alike two later.
TEST(AcceptanceProfileTest, CorrelationIsThatOfRoundsOfOneRequest) {
  const std::vector<std::vector<AcceptedRound>> requests = {
      Rounds({1, 3, 1, 3, 1, 3}), Rounds({3, 1, 3, 1, 3, 1})};

  const AcceptanceProfile profile = ProfileOf(requests);

  EXPECT_NEAR(profile.correlation[0], -1, 1e-12);
  EXPECT_NEAR(profile.correlation[1], 1, 1e-12);
  EXPECT_EQ(profile.correlation[4], 0);  // No request has 17 rounds.
}

TEST(AcceptanceProfileTest, RequestsDeviateByTheirFirstRounds) {
  const std::vector<int> low(AcceptanceProfile::kRoundsOfMean, 2);
  std::vector<int> high(AcceptanceProfile::kRoundsOfMean, 4);
  high.push_back(9);  // Not among them.
  const std::vector<std::vector<AcceptedRound>> requests = {
      Rounds(low), Rounds(high), Rounds({9})};

  EXPECT_NEAR(ProfileOf(requests).request_deviation, std::sqrt(2.0), 1e-12);
}

TEST(AcceptanceProfileTest, NothingIsNothing) {
  EXPECT_EQ(ProfileOf({}).mean, 0);
  EXPECT_EQ(ProfileOf({}).rounds, 0);
}

}  // namespace
}  // namespace bole
