#include "worker_service/model/markov_chain.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(MarkovChainTest, TheLikeliestSuccessorsMakeOneCycleOfAllTokens) {
  for (const int tokens : {128, 2048, 32896}) {
    const MarkovChain chain = MakeMarkovChain({.num_tokens = tokens});
    std::vector<bool> seen(tokens);

    int32_t token = 0;
    for (int i = 0; i < tokens; ++i) {
      ASSERT_FALSE(seen[token]) << tokens << ": " << i;
      seen[token] = true;
      token = chain.Successor(token, 0);
    }

    EXPECT_EQ(token, 0);
  }
}

TEST(MarkovChainTest, TokensBeyondTheChainLeadIntoIt) {
  const MarkovChain chain = MakeMarkovChain({.num_tokens = 2048});

  for (const int32_t token : {2048, 2049, 248319}) {
    EXPECT_LT(chain.Successor(token, kSuccessors - 1), 2048) << token;
  }
}

// What a text meets stays in one passage for hundreds of tokens, and texts from
// elsewhere have other tokens.
TEST(MarkovChainTest, TextsStayNearTheirStart) {
  const MarkovChain chain = MakeMarkovChain({.num_tokens = 32896});
  std::set<int32_t> first;
  std::set<int32_t> second;
  int32_t a = 0;
  int32_t b = 16448;
  for (int i = 0; i < 500; ++i) {
    first.insert(a = chain.Successor(a, 0));
    second.insert(b = chain.Successor(b, 0));
  }

  EXPECT_EQ(first.size(), 500u);
  EXPECT_EQ(second.size(), 500u);
  for (const int32_t token : first) {
    EXPECT_FALSE(second.contains(token)) << token;
  }
}

TEST(MarkovChainTest, ProbabilitiesFallAndHaveTheEntropyAskedFor) {
  for (const double entropy : {kMinEntropy, 0.5, 1.3, kMaxEntropy}) {
    const MarkovChain chain =
        MakeMarkovChain({.num_tokens = 128, .entropy = entropy});

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

TEST(MarkovChainTest, StretchesHaveADifficultyEach) {
  const MarkovChain chain = MakeMarkovChain({.num_tokens = 1 << 17});
  std::vector<int> stretches(kTextLevels);
  for (int32_t first = 0; first < 1 << 17; first += kStretchTokens) {
    const int level = LevelOf(chain.code, first);
    ++stretches[level];
    for (int i = 0; i < kStretchTokens; ++i) {
      ASSERT_EQ(LevelOf(chain.code, first + i), level) << first + i;
    }
  }

  // Half of a normal distribution's numbers are within 0.67 deviations: in the
  // middle two levels 38 %, of 1,024 stretches in 16 passages.
  const double middle = (stretches[3] + stretches[4]) / 1024.0;
  EXPECT_NEAR(middle, 0.38, 0.1);
  EXPECT_GT(stretches[0], 0);
  EXPECT_GT(stretches[kTextLevels - 1], 0);
}

TEST(MarkovChainTest, WithoutSpreadAllLevelsAreAlikeAndNothingBranches) {
  MarkovChain chain = MakeMarkovChain({.num_tokens = 2048, .spread = 0});
  SetDraftNoise(2, chain);

  for (const TextLevel& level : chain.code.levels) {
    EXPECT_EQ(level.lost, chain.code.levels[0].lost);
    EXPECT_EQ(level.noise, chain.code.levels[0].noise);
  }
  for (int32_t token = 0; token < 2048; ++token) {
    ASSERT_FALSE(IsBranch(chain.code, token)) << token;
  }
}

// 257 stretches have 4,112 groups; 0.3 % of these are 12 groups.
TEST(MarkovChainTest, AListLeavesOutWholeGroups) {
  const MarkovChain chain = MakeMarkovChain({.num_tokens = 32896});

  const std::vector<int32_t> listed = ListedTokens(chain, 0.003);

  EXPECT_EQ(listed.size(), 32896u - 12 * kSuccessors);
  EXPECT_TRUE(std::is_sorted(listed.begin(), listed.end()));
  EXPECT_EQ(std::adjacent_find(listed.begin(), listed.end()), listed.end());
  for (size_t i = 0; i < listed.size(); i += kSuccessors) {
    EXPECT_EQ(listed[i] % kSuccessors, 0);
  }
  EXPECT_EQ(ListedTokens(chain, 0).size(), 32896u);
}

}  // namespace
}  // namespace bole
