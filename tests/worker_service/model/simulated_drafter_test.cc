#include "worker_service/model/simulated_drafter.h"

#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker_service/eval/acceptance_profile.h"

namespace bole {
namespace {

constexpr VerifiedTree kTree = {.shape = {.top_k = 4, .depth = 8}, .nodes = 64};

TEST(SimulatedDrafterTest, ADrafterWithoutNoiseIsRightWhereTextIsUniform) {
  const MarkovChain chain = MakeMarkovChain({.num_tokens = 2048, .spread = 0});
  const std::vector<int32_t> all = ListedTokens(chain, 0);

  EXPECT_EQ(MeanAcceptedTokens(chain, all, kTree), 9);
  EXPECT_EQ(MeanAcceptedTokens(chain, all, VerifiedTree::Chain(3)), 4);
}

// A chain goes on until a token that is not listed, whose place is anywhere:
// (1 - s)^i of them get to draft i.
TEST(SimulatedDrafterTest, WhatIsNotListedIsNotDrafted) {
  const MarkovChain chain = MakeMarkovChain({.num_tokens = 32896, .spread = 0});
  const std::vector<int32_t> listed = ListedTokens(chain, 0.05);

  const double mean = MeanAcceptedTokens(chain, listed, VerifiedTree::Chain(8));

  double expected = 0;
  for (int i = 0; i <= 8; ++i) expected += std::pow(0.95, i);
  EXPECT_NEAR(mean, expected, 0.2);
}

TEST(SimulatedDrafterTest, ADrafterOfNoiseAloneHardlyHelps) {
  MarkovChain chain = MakeMarkovChain({.num_tokens = 2048});
  SetDraftNoise(kMaxDraftNoise, chain);

  EXPECT_LT(MeanAcceptedTokens(chain, ListedTokens(chain, 0), kTree), 1.05);
}

TEST(SimulatedDrafterTest, AnyMeanIsFound) {
  for (const double accept : {1.1, 8.0}) {
    MarkovChain chain = MakeMarkovChain({.num_tokens = 32896});
    const std::vector<int32_t> listed = ListedTokens(chain, 0.003);

    const absl::Status reached =
        SetAcceptedTokens(accept, listed, kTree, chain);

    ASSERT_TRUE(reached.ok()) << reached;
    EXPECT_NEAR(MeanAcceptedTokens(chain, listed, kTree), accept,
                0.02 * accept);
  }
}

TEST(SimulatedDrafterTest, AMeanOutOfReachIsRefusedWithTheRange) {
  MarkovChain chain = MakeMarkovChain({.num_tokens = 2048, .spread = 0});
  const std::vector<int32_t> all = ListedTokens(chain, 0);

  const absl::Status too_many =
      SetAcceptedTokens(3.5, all, VerifiedTree::Chain(2), chain);
  const absl::Status too_few = SetAcceptedTokens(1, all, kTree, chain);

  for (const absl::Status& status : {too_many, too_few}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_NE(too_many.message().find("to 3.00 tokens a round"),
            std::string::npos)
      << too_many;
}

// Rounds of the hard stretches and requests are short, of the easy ones long.
TEST(SimulatedDrafterTest, AcceptanceVariesByRequest) {
  MarkovChain chain = MakeMarkovChain({.num_tokens = 32896});
  const std::vector<int32_t> all = ListedTokens(chain, 0);
  MarkovChain uniform = MakeMarkovChain({.num_tokens = 32896, .spread = 0});
  for (MarkovChain* of : {&chain, &uniform}) SetDraftNoise(2, *of);
  const auto deviation_of_means = [&](const MarkovChain& of) {
    double sum = 0;
    double squares = 0;
    const auto texts =
        AcceptedTokens(of, all, kTree, {.tokens = 120, .rounds = 3000});
    for (const std::vector<int>& rounds : texts) {
      const double mean = std::accumulate(rounds.begin(), rounds.end(), 0.0) /
                          static_cast<double>(rounds.size());
      sum += mean;
      squares += mean * mean;
    }
    const auto n = static_cast<double>(texts.size());
    return std::sqrt(squares / n - sum * sum / (n * n));
  };

  // 24 independent rounds that deviate by 2.5 would have a mean that deviates
  // by 0.5.
  EXPECT_LT(deviation_of_means(uniform), 0.7);
  EXPECT_GT(deviation_of_means(chain), 0.85);
}

AcceptanceProfile ProfileOf(const std::vector<std::vector<int>>& texts) {
  std::vector<std::vector<AcceptedRound>> requests;
  for (const std::vector<int>& rounds : texts) {
    std::vector<AcceptedRound>& request = requests.emplace_back();
    for (const int tokens : rounds) request.push_back({.tokens = tokens});
  }
  return ProfileOf(requests);
}

// As much as 901 rounds of 96 requests can tell: a correlation to 0.05, and the
// deviation to 0.1, twice over.
TEST(SimulatedDrafterTest, AcceptanceIsSpreadAsTheDemoModelsIs) {
  std::ifstream file("tests/bench/profile/demo.json");
  const auto demo = nlohmann::json::parse(file)["acceptance"];
  MarkovChain chain = MakeMarkovChain({.num_tokens = 33152});
  const std::vector<int32_t> listed = ListedTokens(chain, 0.009);
  ASSERT_TRUE(SetAcceptedTokens(demo["mean"], listed, kTree, chain).ok());

  const AcceptanceProfile text = ProfileOf(
      AcceptedTokens(chain, listed, kTree, {.tokens = 60, .rounds = 12000}));

  EXPECT_NEAR(text.deviation, demo["deviation"], 0.2);
  const auto& correlation = demo["correlation_by_lag"];
  EXPECT_NEAR(text.correlation[0], correlation["1"], 0.1);
  EXPECT_NEAR(text.correlation[1], correlation["2"], 0.1);
  EXPECT_NEAR(text.correlation[2], correlation["4"], 0.1);
  for (int i = 0; i < 9; ++i) {
    EXPECT_NEAR(text.share[i], demo["share_by_tokens"][i], 0.05) << i + 1;
  }
}

}  // namespace
}  // namespace bole
