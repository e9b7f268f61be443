#include "worker_service/model/markov_chain.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr VerifiedTree kTree = {.shape = {.top_k = 4, .depth = 8}, .nodes = 64};

TEST(MarkovChainTest, TheLikeliestSuccessorsMakeOneCycleOfAllTokens) {
  for (const int vocabulary : {64, 96, 2048, 248320}) {
    const MarkovChain chain = MakeMarkovChain(vocabulary, 0.5, 3);
    std::vector<bool> seen(vocabulary);

    int32_t token = 0;
    for (int i = 0; i < vocabulary; ++i) {
      ASSERT_FALSE(seen[token]) << vocabulary << ": " << i;
      seen[token] = true;
      token = chain.Successor(token, 0);
    }

    EXPECT_EQ(token, 0);
  }
}

TEST(MarkovChainTest, ProbabilitiesFallAndHaveTheEntropyAskedFor) {
  for (const double entropy : {kMinEntropy, 0.5, 1.3, kMaxEntropy}) {
    const MarkovChain chain = MakeMarkovChain(64, entropy, 1);

    double found = 0;
    double sum = 0;
    for (int m = 0; m < kSuccessors; ++m) {
      const double p = chain.probability[m];
      EXPECT_GT(p, 0);
      if (m > 0) {
        EXPECT_LT(p, chain.probability[m - 1]);
      }
      sum += p;
      found -= p * std::log(p);
    }

    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_NEAR(found, entropy, 1e-9);
  }
}

TEST(MarkovChainTest, ADrafterWithoutNoiseIsAlwaysRight) {
  const MarkovChain chain = MakeMarkovChain(2048, 0.5, 1);

  EXPECT_EQ(MeanAcceptedTokens(chain, 0, kTree, 20), 9);
  EXPECT_EQ(MeanAcceptedTokens(chain, 0, {{.top_k = 1, .depth = 3}, 4}, 20), 4);
}

// With noise without end the order of the eight is chance: of one child per
// node, one in eight is right.
TEST(MarkovChainTest, ADrafterOfNoiseAloneGuesses) {
  const MarkovChain chain = MakeMarkovChain(2048, 0.5, 1);

  const double mean =
      MeanAcceptedTokens(chain, 1e6, {{.top_k = 1, .depth = 4}, 5}, 20000);

  // 1 + 1/8 + 1/64 + ..., whose deviation per round is below 0.41.
  EXPECT_NEAR(mean, 1 + 1.0 / 8 + 1.0 / 64 + 1.0 / 512, 4 * 0.41 / 141);
}

TEST(MarkovChainTest, NoiseIsFoundForAMeanOfAcceptedTokens) {
  const MarkovChain chain = MakeMarkovChain(2048, 0.5, 1);
  double last_noise = kMaxDraftNoise;
  for (const double accept : {3.0, 5.0, 6.9, 8.0}) {
    const double noise = NoiseForAcceptance(chain, accept, kTree);

    EXPECT_NEAR(MeanAcceptedTokens(chain, noise, kTree, 6000), accept, 0.2);
    EXPECT_LT(noise, last_noise);
    last_noise = noise;
  }
  EXPECT_EQ(NoiseForAcceptance(chain, 9, kTree), 0);
}

}  // namespace
}  // namespace bole
