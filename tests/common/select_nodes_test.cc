#include "common/select_nodes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::RandomTrees;
using ::bole::testing::UniformInt;

constexpr int kNoLimit = std::numeric_limits<int>::max();

bool Contains(const std::vector<NodeRef>& selected, NodeRef ref) {
  return std::binary_search(selected.begin(), selected.end(), ref);
}

// The best node that is not taken yet, among the trees of which fewer nodes are
// taken than their limits allow. Empty if there is none.
std::optional<NodeRef> BestLeft(const std::vector<ProposalTree>& trees,
                                const std::vector<std::vector<bool>>& taken,
                                const std::vector<int>& limits) {
  std::optional<NodeRef> best;
  float best_log_rho = 0;
  for (int t = 0; t < std::ssize(trees); ++t) {
    const auto count = std::count(taken[t].begin(), taken[t].end(), true);
    if (count >= limits[t]) continue;
    for (int i = 0; i < trees[t].size(); ++i) {
      const bool is_better = !best || trees[t].log_rho[i] > best_log_rho;
      if (taken[t][i] || !is_better) continue;
      best = {t, i};
      best_log_rho = trees[t].log_rho[i];
    }
  }
  return best;
}

// Follows the definition of the selection, one node at a time.
std::vector<NodeRef> SelectOneByOne(const std::vector<ProposalTree>& trees,
                                    int budget,
                                    const std::vector<TreeBounds>& bounds) {
  std::vector<int> floors, caps;
  for (const TreeBounds& of : bounds) {
    floors.push_back(of.floor);
    caps.push_back(of.cap);
  }
  std::vector<NodeRef> selected;
  std::vector<std::vector<bool>> taken(trees.size());
  for (int t = 0; t < std::ssize(trees); ++t) {
    taken[t].resize(trees[t].size());
    taken[t][0] = true;
    selected.push_back({t, 0});
  }
  while (std::ssize(selected) < budget) {
    std::optional<NodeRef> best = BestLeft(trees, taken, floors);
    if (!best) best = BestLeft(trees, taken, caps);
    if (!best) break;
    taken[best->tree][best->node] = true;
    selected.push_back(*best);
  }
  std::sort(selected.begin(), selected.end());
  return selected;
}

TEST(SelectNodesTest, IsTheBestThatFitsTakenOneByOne) {
  std::mt19937 rng(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const int num_trees = UniformInt(rng, 1, 5);
    const std::vector<ProposalTree> trees = RandomTrees(rng, num_trees, 20);
    const int budget = UniformInt(rng, num_trees, 60);
    const int limit = UniformInt(rng, 0, 1) ? UniformInt(rng, 1, 12) : kNoLimit;

    EXPECT_EQ(
        SelectNodes(trees, budget, limit),
        SelectOneByOne(trees, budget,
                       std::vector(trees.size(), TreeBounds{.cap = limit})));
  }
}

TEST(SelectNodesTest, FloorsComeBeforeLikelierNodesOfOtherTrees) {
  std::mt19937 rng(5);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    const int num_trees = UniformInt(rng, 1, 6);
    std::vector<ProposalTree> trees = RandomTrees(rng, num_trees, 30);
    // Certain nodes tie with those of the floors.
    if (round % 4 == 0) {
      for (float& log_rho : trees[0].log_rho) log_rho = 0;
    }
    std::vector<TreeBounds> bounds(num_trees);
    int floors = 0;
    for (TreeBounds& of : bounds) {
      of.floor = UniformInt(rng, 1, 9);
      if (UniformInt(rng, 0, 1)) of.cap = of.floor + UniformInt(rng, 0, 6);
      floors += of.floor;
    }
    const int budget = floors + UniformInt(rng, 0, 50);

    EXPECT_EQ(SelectNodes(trees, budget, bounds),
              SelectOneByOne(trees, budget, bounds));
  }
}

TEST(SelectNodesTest, AFloorOfALargeTreeIsFoundAmongImpossibleNodes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ProposalTree certain{.parent = {kNoParent}, .token = {0}, .log_rho = {0}};
  for (int i = 1; i < 600; ++i) {
    certain.parent.push_back(0);
    certain.token.push_back(i);
    certain.log_rho.push_back(0);
  }
  ProposalTree impossible = certain;
  for (int i = 1; i < 600; ++i) impossible.log_rho[i] = -kInfinity;
  const std::vector<ProposalTree> trees = {certain, impossible};
  const std::vector<TreeBounds> bounds = {{}, {.floor = 4}};

  EXPECT_EQ(
      SelectNodes(trees, /*budget=*/6, bounds),
      (std::vector<NodeRef>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {1, 3}}));
}

TEST(SelectNodesTest, KeepsEveryRootAndEveryAncestorAndFillsTheBudget) {
  std::mt19937 rng(2);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const std::vector<ProposalTree> trees = RandomTrees(rng, 6, 150);
    const int budget = UniformInt(rng, 6, 600);
    const int limit = UniformInt(rng, 1, 128);
    int available = 0;
    for (const ProposalTree& t : trees) available += std::min(t.size(), limit);

    const std::vector<NodeRef> selected = SelectNodes(trees, budget, limit);

    EXPECT_EQ(std::ssize(selected), std::min(budget, available));
    std::vector<int> share(trees.size());
    for (const NodeRef& ref : selected) {
      ++share[ref.tree];
      const int parent = trees[ref.tree].parent[ref.node];
      EXPECT_TRUE(parent == kNoParent || Contains(selected, {ref.tree, parent}))
          << "tree " << ref.tree << " node " << ref.node;
    }
    EXPECT_LE(*std::max_element(share.begin(), share.end()), limit);
    for (int t = 0; t < 6; ++t) EXPECT_TRUE(Contains(selected, {t, 0})) << t;
  }
}

// A root is kept even when another tree has enough certain nodes to fill the
// budget: its sequence could not advance without it.
TEST(SelectNodesTest, CertainCandidatesDoNotCrowdOutARoot) {
  const std::vector<ProposalTree> trees = {
      {{kNoParent, 0, 1}, {7, 8, 9}, {0.0f, 0.0f, 0.0f}},
      {{kNoParent}, {7}, {0.0f}},
  };

  EXPECT_EQ(SelectNodes(trees, /*budget=*/2),
            (std::vector<NodeRef>{{0, 0}, {1, 0}}));
}

TEST(SelectNodesTest, TiesGoToTheLowerTreeThenTheLowerNode) {
  const ProposalTree tree = {
      {kNoParent, 0, 0}, {7, 8, 9}, {0.0f, -1.0f, -1.0f}};
  const std::vector<ProposalTree> trees = {tree, tree};

  EXPECT_EQ(SelectNodes(trees, /*budget=*/3),
            (std::vector<NodeRef>{{0, 0}, {0, 1}, {1, 0}}));
  EXPECT_EQ(SelectNodes(trees, /*budget=*/5),
            (std::vector<NodeRef>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}));
}

// Budget that one tree may not use goes to the next best nodes of the others.
TEST(SelectNodesTest, ALimitOnTreesLeavesTheBudgetToTheOthers) {
  const std::vector<ProposalTree> trees = {
      {{kNoParent, 0, 1}, {7, 8, 9}, {0.0f, -0.1f, -0.2f}},
      {{kNoParent, 0, 0}, {7, 8, 9}, {0.0f, -5.0f, -4.0f}},
  };

  EXPECT_EQ(SelectNodes(trees, /*budget=*/4, /*max_nodes_per_tree=*/2),
            (std::vector<NodeRef>{{0, 0}, {0, 1}, {1, 0}, {1, 2}}));
}

// Selected are both children of the first tree's root, nothing but the root of
// the second tree, and a node and its child of the third.
TEST(PromisedDraftsTest, IsTheSumOfWhatIsSelectedWithoutTheRoots) {
  const float half = std::log(0.5f);
  const std::vector<ProposalTree> trees = {
      {{kNoParent, 0, 0}, {1, 2, 3}, {0, half, 2 * half}},
      {{kNoParent, 0}, {1, 2}, {0, half}},
      {{kNoParent, 0, 1, 2}, {1, 2, 3, 4}, {0, half, 3 * half, 4 * half}}};

  const std::vector<float> promised = PromisedDrafts(
      trees, std::vector<NodeRef>{
                 {0, 0}, {0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 1}, {2, 2}});

  ASSERT_EQ(promised.size(), 3u);
  EXPECT_FLOAT_EQ(promised[0], 0.75f);
  EXPECT_EQ(promised[1], 0);
  EXPECT_FLOAT_EQ(promised[2], 0.625f);
}

TEST(SelectNodesTest, NoTreesGiveNoNodes) {
  EXPECT_TRUE(SelectNodes({}, /*budget=*/8).empty());
}

TEST(SelectNodesDeathTest, ABudgetBelowTheRootsIsABug) {
  const std::vector<ProposalTree> trees(3, {{kNoParent}, {7}, {0.0f}});

  EXPECT_DEATH(SelectNodes(trees, /*budget=*/2), "budget >= ");
}

}  // namespace
}  // namespace bole
