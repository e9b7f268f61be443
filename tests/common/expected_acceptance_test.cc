#include "common/expected_acceptance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace bole {
namespace {

struct Node {
  int parent;  // -1: the root, which is no node here.
  double chance;
  double reached;
};

// The nodes of a draft, one level after the other, as a drafter grows them.
std::vector<Node> Grow(const RankChances& chances, const DraftShape& shape) {
  std::vector<Node> nodes;
  std::vector<int> frontier = {-1};
  for (int level = 0; level < shape.depth; ++level) {
    const auto row = std::min<size_t>(level, chances.size() - 1);
    std::vector<int> children;
    for (const int parent : frontier) {
      const double reached = parent < 0 ? 1 : nodes[parent].reached;
      for (int r = 0; r < shape.top_k; ++r) {
        const double chance = chances[row][r];
        children.push_back(static_cast<int>(nodes.size()));
        nodes.push_back({parent, chance, reached * chance});
      }
    }
    std::stable_sort(children.begin(), children.end(), [&](int a, int b) {
      return nodes[a].reached > nodes[b].reached;
    });
    children.resize(std::min<size_t>(children.size(), shape.top_k));
    frontier = children;
  }
  return nodes;
}

// How many nodes of `chosen`, a set of bits, are accepted on average: of each
// accepted node at most one child is.
double Accepted(const std::vector<Node>& nodes, unsigned chosen, int parent) {
  double expected = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if ((chosen >> i & 1) == 0 || nodes[i].parent != parent) continue;
    expected +=
        nodes[i].chance * (1 + Accepted(nodes, chosen, static_cast<int>(i)));
  }
  return expected;
}

struct Case {
  std::string name;
  RankChances chances;
  DraftShape shape;
};

class ExpectedDraftsTest : public testing::TestWithParam<Case> {};

TEST_P(ExpectedDraftsTest, NoChoiceOfAsManyNodesBringsMore) {
  const auto& [name, chances, shape] = GetParam();
  const std::vector<Node> nodes = Grow(chances, shape);
  std::vector<double> best(nodes.size() + 1);
  for (unsigned chosen = 0; chosen < 1u << nodes.size(); ++chosen) {
    const auto count = static_cast<size_t>(__builtin_popcount(chosen));
    best[count] = std::max(best[count], Accepted(nodes, chosen, -1));
  }

  const std::vector<double> expected = ExpectedDrafts(chances, shape);

  ASSERT_EQ(expected.size(), best.size());
  for (size_t i = 0; i < best.size(); ++i) {
    EXPECT_NEAR(expected[i], best[i], 1e-12) << i << " nodes";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Drafts, ExpectedDraftsTest,
    testing::Values(
        Case{"chain", {{0.7}}, {.top_k = 1, .depth = 8}},
        Case{"chain_that_is_worse_below",
             {{0.9}, {0.5}, {0.1}},
             {.top_k = 1, .depth = 5}},
        Case{"tree", {{0.6, 0.2}}, {.top_k = 2, .depth = 3}},
        Case{"tree_of_equals", {{0.5, 0.5}}, {.top_k = 2, .depth = 3}},
        Case{"tree_by_depth",
             {{0.3, 0.25, 0.2}, {0.8, 0.1, 0.05}},
             {.top_k = 3, .depth = 2}},
        Case{"second_rank_is_better", {{0.2, 0.6}}, {.top_k = 2, .depth = 3}}),
    [](const auto& test) { return test.param.name; });

TEST(ExpectedDraftsTest, AChainOfCertainDraftsIsAcceptedWhole) {
  EXPECT_EQ(ExpectedDrafts({{1.0}}, {.top_k = 1, .depth = 3}),
            (std::vector<double>{0, 1, 2, 3}));
}

TEST(ExpectedDraftsTest, RanksWithoutAChanceAreNeverRight) {
  const std::vector<double> expected =
      ExpectedDrafts({{0.5}}, {.top_k = 2, .depth = 1});

  EXPECT_EQ(expected, (std::vector<double>{0, 0.5, 0.5}));
}

TEST(ExpectedDraftsTest, EveryFurtherNodeOfThreeThousandBringsLess) {
  const DraftShape shape{.top_k = kMaxDraftTopK, .depth = kMaxDraftDepth};
  const std::vector<double> expected =
      ExpectedDrafts(HalvingChances(0.8, kMaxDraftTopK), shape);

  ASSERT_EQ(expected.size(), shape.num_candidates() + 1u);
  for (size_t i = 2; i < expected.size(); ++i) {
    EXPECT_LE(expected[i] - expected[i - 1],
              expected[i - 1] - expected[i - 2] + 1e-12);
  }
  EXPECT_LE(expected.back(), shape.depth);
}

TEST(HalvingChancesTest, RanksShareWhatTheFirstLeaves) {
  EXPECT_EQ(HalvingChances(0.5, 4), (RankChances{{0.5, 0.25, 0.125, 0.0625}}));
  EXPECT_EQ(HalvingChances(0.25, 3), (RankChances{{0.25, 0.125, 0.0625}}));
  EXPECT_EQ(HalvingChances(1, 2), (RankChances{{1.0, 0.0}}));
}

TEST(FitFirstChanceTest, BringsTheMeanThatItWasFittedTo) {
  const DraftShape shape;
  for (const double mean : {1.01, 1.2, 3.0, 5.5, 6.9, 8.9}) {
    const double first = FitFirstChance(mean, shape, 64);
    const std::vector<double> expected =
        ExpectedDrafts(HalvingChances(first, shape.top_k), shape);

    EXPECT_NEAR(1 + expected[63], mean, 1e-6) << mean;
  }
  EXPECT_NEAR(FitFirstChance(1, shape, 64), 0, 1e-9);
  EXPECT_NEAR(FitFirstChance(20, shape, 64), 1, 1e-9);
}

TEST(FitFirstChanceTest, TheDemoModelsDraftsFollowFromOneOfItsTrees) {
  const DraftShape shape;
  const double first = FitFirstChance(4.84, shape, 33);
  const RankChances chances = HalvingChances(first, shape.top_k);
  const std::vector<double> tree = ExpectedDrafts(chances, shape);
  const std::vector<double> chain =
      ExpectedDrafts(chances, {.top_k = 1, .depth = 3});

  EXPECT_NEAR(1 + chain[3], 2.65, 0.2);
  EXPECT_NEAR(1 + tree[8], 3.79, 0.2);
  EXPECT_NEAR(1 + tree[16], 4.34, 0.2);
}

}  // namespace
}  // namespace bole
