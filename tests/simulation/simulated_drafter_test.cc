#include "tests/simulation/simulated_drafter.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace bole::simulation {
namespace {

constexpr DraftShape kShape = {.top_k = 4, .depth = 6};
constexpr int kTrees = 10'000;

TextOptions Text() {
  TextOptions text;
  for (int32_t token = 0; token < 50; ++token) text.alphabet.push_back(token);
  return text;
}

struct Counts {
  std::vector<int> tried = std::vector<int>(kShape.depth, 0);
  std::vector<int> right = std::vector<int>(kShape.depth, 0);
  double promised = 0;  // Sum of rho of all candidates.
  double found = 0;     // Candidates that are right.
};

// Follows what the model writes down the tree.
void Count(const ProposalTree& tree, const TokenRule& rule, History history,
           Counts& counts) {
  for (int i = 1; i < tree.size(); ++i) {
    counts.promised += std::exp(tree.log_rho[i]);
  }
  int node = 0;
  for (int depth = 0; depth < kShape.depth; ++depth) {
    bool has_children = false;
    int child = 0;
    history = Append(history, tree.token[node], rule.prompt_length());
    const int32_t truth = rule.Next(history);
    for (int i = node + 1; i < tree.size(); ++i) {
      if (tree.parent[i] != node) continue;
      has_children = true;
      if (tree.token[i] == truth) child = i;
    }
    if (!has_children) return;
    ++counts.tried[depth];
    if (child == 0) return;
    ++counts.right[depth];
    ++counts.found;
    node = child;
  }
}

Counts CountTrees(const std::vector<double>& accept) {
  const TextOptions text = Text();
  const TokenRule rule(text, 1, {});
  Counts counts;
  History history = Append({}, 3, 1);
  for (int i = 0; i < kTrees; ++i) {
    const int32_t root = rule.Next(history);
    const ProposalTree tree =
        Propose(text, accept, rule, history, root, kShape);
    EXPECT_EQ(Validate(tree).message(), "");
    EXPECT_EQ(tree.size(), 1 + kShape.num_candidates());
    Count(tree, rule, history, counts);
    history = Append(history, root, 1);
  }
  return counts;
}

TEST(ProposeTest, EachDepthIsRightAsOftenAsStated) {
  const std::vector<double> accept = {0.95, 0.9, 0.8};
  const Counts counts = CountTrees(accept);

  for (int depth = 0; depth < kShape.depth; ++depth) {
    SCOPED_TRACE(depth);
    const double want = accept[std::min(depth, 2)];
    const double tried = counts.tried[depth];
    ASSERT_GT(tried, 50);
    // Five standard deviations of the share.
    EXPECT_NEAR(counts.right[depth] / tried, want,
                5 * std::sqrt(want * (1 - want) / tried));
  }
}

TEST(ProposeTest, RhoPromisesWhatComesTrue) {
  const Counts counts = CountTrees({0.8});
  // The count of right candidates of a tree is at most the depth.
  EXPECT_NEAR(counts.found / kTrees, counts.promised / kTrees,
              5 * kShape.depth / std::sqrt(kTrees) / 2);
  EXPECT_GT(counts.found, kTrees);
}

TEST(ProposeTest, CertaintyAndHopelessnessAreAllowed) {
  const Counts sure = CountTrees({1.0});
  EXPECT_EQ(sure.right[0], kTrees);
  const Counts never = CountTrees({0.0});
  EXPECT_EQ(never.right[0], 0);
}

TEST(ProposeTest, SiblingsDiffer) {
  TextOptions text = Text();
  text.alphabet.resize(5);
  const TokenRule rule(text, 1, {});
  const std::vector<double> accept = {0.5};
  History history = Append({}, 3, 1);
  for (int i = 0; i < 200; ++i) {
    const ProposalTree tree =
        Propose(text, accept, rule, history, rule.Next(history), kShape);
    std::set<std::pair<int32_t, int32_t>> children;
    for (int node = 1; node < tree.size(); ++node) {
      EXPECT_TRUE(
          children.insert({tree.parent[node], tree.token[node]}).second);
    }
    history = Append(history, tree.token[0], 1);
  }
}

}  // namespace
}  // namespace bole::simulation
