#include "kernels/reference/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/log_softmax.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::UniformInt;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kUntouched = -7777;

struct TopKCase {
  int num_rows;
  int vocabulary;
  int num_valid;
  int top_k;
  std::vector<float> logits;
};

struct TopKResult {
  std::vector<int32_t> token;
  std::vector<float> log_prob;
};

// With capacity for one row more than there is.
TopKResult RunTopK(const TopKCase& c) {
  const size_t size = static_cast<size_t>(c.num_rows + 1) * c.top_k;
  TopKResult result{std::vector<int32_t>(size, kUntouched),
                    std::vector<float>(size, kUntouched)};
  const int32_t num_rows = c.num_rows;
  ThreadPool pool(2);
  TopK({.rows = {&num_rows, c.num_rows + 1},
        .vocabulary = c.vocabulary,
        .num_valid_tokens = c.num_valid,
        .top_k = c.top_k,
        .logits = c.logits.data(),
        .token_of = nullptr,
        .token = result.token.data(),
        .log_prob = result.log_prob.data()},
       pool);
  return result;
}

// Half of the cases have ties.
TopKCase RandomCase(std::mt19937& rng) {
  std::normal_distribution<float> normal(0, 3);
  TopKCase c;
  c.num_rows = UniformInt(rng, 0, 5);
  c.vocabulary = UniformInt(rng, 1, 100);
  c.num_valid = UniformInt(rng, 1, c.vocabulary);
  c.top_k = UniformInt(rng, 1, std::min(c.num_valid, 32));
  const bool coarse = UniformInt(rng, 0, 1) == 0;
  for (int i = 0; i < c.num_rows * c.vocabulary; ++i) {
    const float z = normal(rng);
    c.logits.push_back(coarse ? std::round(z) : z);
  }
  return c;
}

TEST(TopKTest, IsTheFrontOfAStableSortWithItsLogSoftmax) {
  std::mt19937 rng(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const TopKCase c = RandomCase(rng);

    const TopKResult got = RunTopK(c);

    for (int row = 0; row < c.num_rows; ++row) {
      const float* logits = c.logits.data() + row * c.vocabulary;
      std::vector<int> order(c.num_valid);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return logits[a] > logits[b]; });
      double sum = 0;
      for (const int v : order) sum += std::exp(double{logits[v]});
      for (int i = 0; i < c.top_k; ++i) {
        const int at = row * c.top_k + i;
        EXPECT_EQ(got.token[at], order[i]);
        // Logits of up to 15 in float, whose last bit is worth 1e-6.
        EXPECT_NEAR(got.log_prob[at], logits[order[i]] - std::log(sum), 1e-5);
      }
    }
    for (int i = c.num_rows * c.top_k; i < std::ssize(got.token); ++i) {
      EXPECT_EQ(got.token[i], kUntouched);
      EXPECT_EQ(got.log_prob[i], kUntouched);
    }
  }
}

// A log probability above 0 would put a child before its parent.
TEST(TopKTest, ACertainTokenHasLogProbabilityZero) {
  const TopKResult got = RunTopK({.num_rows = 1,
                                  .vocabulary = 4,
                                  .num_valid = 4,
                                  .top_k = 3,
                                  .logits = {-300, 88.7f, -kInfinity, kNan}});

  EXPECT_EQ(got.log_prob[0], 0.0f);
  EXPECT_NEAR(got.log_prob[1], -388.7f, 1e-4);
  EXPECT_EQ(got.log_prob[2], -kInfinity);
  EXPECT_EQ(std::vector(got.token.begin(), got.token.begin() + 3),
            (std::vector<int32_t>{1, 0, 2}));
}

TEST(TopKTest, ARowWithoutPossibleTokensGivesTheLowestIds) {
  const TopKResult got = RunTopK({.num_rows = 1,
                                  .vocabulary = 3,
                                  .num_valid = 3,
                                  .top_k = 2,
                                  .logits = {kNan, -kInfinity, kNan}});

  EXPECT_EQ(std::vector(got.token.begin(), got.token.begin() + 2),
            (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(got.log_prob[0], -kInfinity);
}

TEST(BestTokensTest, GivesAllOfAShortRow) {
  const std::vector<float> logits = {1, 3, 2};

  EXPECT_EQ(BestTokens(logits, 5).size(), 3u);
  EXPECT_EQ(BestTokens(logits, 5)[0].token, 1);
  EXPECT_TRUE(BestTokens(logits, 0).empty());
}

TEST(LogSoftmaxTest, ProbabilitiesAddUpToOne) {
  std::mt19937 rng(2);
  std::normal_distribution<float> normal(0, 4);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<float> logits(UniformInt(rng, 1, 3000));
    for (float& z : logits) z = normal(rng);

    const LogSoftmax softmax(logits);

    double sum = 0;
    for (const float z : logits) {
      EXPECT_LE(softmax.LogProb(z), 0);
      sum += std::exp(double{softmax.LogProb(z)});
    }
    // Every term is off by some 1e-6 of itself.
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

}  // namespace
}  // namespace bole::reference
