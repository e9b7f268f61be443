#include "common/packed_forest.h"

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::RandomTrees;
using ::bole::testing::UniformInt;

constexpr ForestLimits kWide = {.max_requests = 100,
                                .max_nodes = 10000,
                                .max_nodes_per_request = 1000,
                                .vocabulary = 1000};

bool Bit(const PackedForest& forest, int row, int node) {
  const uint32_t word = forest.ancestors[row * forest.mask_words + node / 32];
  return (word >> (node % 32)) & 1;
}

// Depth and mask of every row, against a walk to the root.
void ExpectDepthAndMaskFollowParents(const PackedForest& forest) {
  for (int row = 0; row < forest.num_nodes(); ++row) {
    SCOPED_TRACE(row);
    const int first = forest.first_node[forest.request[row]];
    ASSERT_LT(row, forest.first_node[forest.request[row] + 1]);
    std::vector<bool> want(forest.mask_words * 32);
    int steps = -1;
    for (int node = row - first; node != kNoParent;
         node = forest.parent[first + node]) {
      want[node] = true;
      ++steps;
    }
    EXPECT_EQ(forest.depth[row], steps);
    for (int j = 0; j < std::ssize(want); ++j) {
      EXPECT_EQ(Bit(forest, row, j), want[j]) << "bit " << j;
    }
  }
}

TEST(PackForestTest, RoundTripsTheSelectedNodes) {
  std::mt19937 rng(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const int num_trees = UniformInt(rng, 1, 6);
    const std::vector<ProposalTree> trees = RandomTrees(rng, num_trees, 90);
    const std::vector<NodeRef> selected =
        SelectNodes(trees, UniformInt(rng, num_trees, 300), 70);

    const PackedTrees packed = PackForest(trees, selected);

    const PackedForest& forest = packed.forest;
    ASSERT_TRUE(Validate(forest, kWide).ok()) << Validate(forest, kWide);
    ASSERT_EQ(forest.num_requests(), num_trees);
    std::vector<NodeRef> unpacked;
    for (int row = 0; row < forest.num_nodes(); ++row) {
      const int b = forest.request[row];
      const int node = packed.tree_node[row];
      unpacked.push_back({b, node});
      EXPECT_EQ(forest.token[row], trees[b].token[node]);
      const int parent = forest.parent[row];
      EXPECT_EQ(parent == kNoParent
                    ? kNoParent
                    : packed.tree_node[forest.first_node[b] + parent],
                trees[b].parent[node]);
    }
    EXPECT_EQ(unpacked, selected);
    ExpectDepthAndMaskFollowParents(forest);
  }
}

TEST(PackForestTest, ATreeWithoutSelectedNodesIsAnEmptyRequest) {
  const std::vector<ProposalTree> trees(3, {{kNoParent}, {7}, {0.0f}});
  const std::vector<NodeRef> selected = {{0, 0}, {2, 0}};

  const PackedTrees packed = PackForest(trees, selected);

  EXPECT_EQ(packed.forest.first_node, (std::vector<int32_t>{0, 1, 1, 2}));
  EXPECT_EQ(packed.forest.request, (std::vector<int32_t>{0, 2}));
}

TEST(PackForestDeathTest, ANodeWithoutItsParentIsABug) {
  const std::vector<ProposalTree> trees = {
      {{kNoParent, 0, 1}, {7, 8, 9}, {0.0f, 0.0f, 0.0f}}};
  const std::vector<NodeRef> selected = {{0, 0}, {0, 2}};

  EXPECT_DEATH(PackForest(trees, selected), "parent");
}

TEST(BuildForestTest, SeveralNodesMayHaveNoParent) {
  std::mt19937 rng(2);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    std::vector<NodeList> lists(UniformInt(rng, 0, 4));
    for (NodeList& list : lists) {
      const int num_nodes = UniformInt(rng, 0, 80);
      for (int i = 0; i < num_nodes; ++i) {
        list.token.push_back(i);
        list.parent.push_back(UniformInt(rng, kNoParent, i - 1));
      }
    }

    const absl::StatusOr<PackedForest> forest = BuildForest(lists);

    ASSERT_TRUE(forest.ok()) << forest.status();
    EXPECT_TRUE(Validate(*forest, kWide).ok()) << Validate(*forest, kWide);
    ExpectDepthAndMaskFollowParents(*forest);
    for (int b = 0; b < std::ssize(lists); ++b) {
      const int first = forest->first_node[b];
      ASSERT_EQ(forest->first_node[b + 1] - first, std::ssize(lists[b].token));
      for (int i = 0; i < std::ssize(lists[b].token); ++i) {
        EXPECT_EQ(forest->token[first + i], lists[b].token[i]);
        EXPECT_EQ(forest->parent[first + i], lists[b].parent[i]);
      }
    }
  }
}

TEST(BuildForestTest, AMaskIsAsWideAsTheLargestRequestNeeds) {
  for (const auto& [num_nodes, words] :
       std::vector<std::pair<int, int>>{{0, 0}, {1, 1}, {32, 1}, {33, 2}}) {
    const NodeList list = {std::vector<int32_t>(num_nodes, 5),
                           std::vector<int32_t>(num_nodes, kNoParent)};

    const absl::StatusOr<PackedForest> forest =
        BuildForest(std::vector<NodeList>{{}, list});

    ASSERT_TRUE(forest.ok()) << forest.status();
    EXPECT_EQ(forest->mask_words, words) << num_nodes;
  }
}

TEST(BuildForestTest, RefusesParentsThatAreNotEarlierNodes) {
  for (const int parent : {-2, 1, 2}) {
    const std::vector<NodeList> lists = {{{4, 5}, {kNoParent, parent}}};

    EXPECT_EQ(BuildForest(lists).status(),
              absl::InvalidArgumentError(
                  "forest: request 0: node 1 has parent " +
                  std::to_string(parent) + ", which is not an earlier node"));
  }
  EXPECT_EQ(
      BuildForest(std::vector<NodeList>{{}, {{4, 5}, {kNoParent}}}).status(),
      absl::InvalidArgumentError(
          "forest: request 1 has 2 tokens and 1 parents"));
}

// Request 0: 0 - 1 - 2 and 0 - 3; request 1: 0 - 1.
PackedForest SmallForest() {
  const std::vector<NodeList> lists = {
      {{7, 8, 9, 5}, {kNoParent, 0, 1, 0}},
      {{7, 8}, {kNoParent, 0}},
  };
  return *BuildForest(lists);
}

struct BrokenForest {
  std::function<void(PackedForest&)> break_it;
  std::string message;
};

TEST(ValidateForestTest, EveryBrokenInvariantIsNamedWithItsValue) {
  const ForestLimits limits = {.max_requests = 2,
                               .max_nodes = 6,
                               .max_nodes_per_request = 4,
                               .vocabulary = 10};
  const std::string first_node =
      "first_node does not ascend from 0 to the number of nodes, 6";
  const std::vector<BrokenForest> cases = {
      {[](PackedForest& f) { f.first_node.clear(); }, first_node},
      {[](PackedForest& f) { f.first_node[0] = 1; }, first_node},
      {[](PackedForest& f) { f.first_node[1] = 7; }, first_node},
      {[](PackedForest& f) { f.first_node[1] = -1; }, first_node},
      {[](PackedForest& f) { f.first_node[2] = 5; }, first_node},
      {[](PackedForest& f) { f.first_node.push_back(6); },
       "3 requests; the limit is 2"},
      {[](PackedForest& f) { f.token.pop_back(); }, "5 tokens for 6 nodes"},
      {[](PackedForest& f) { f.first_node[1] = 5; },
       "request 0 has 5 nodes; the limit is 4"},
      {[](PackedForest& f) { f.parent[3] = 3; },
       "request 0: node 3 has parent 3, which is not an earlier node"},
      {[](PackedForest& f) { f.parent[5] = -2; },
       "request 1: node 1 has parent -2, which is not an earlier node"},
      {[](PackedForest& f) { f.token[1] = 10; },
       "request 0: node 1 has token 10 of a vocabulary of 10"},
      {[](PackedForest& f) { f.token[4] = -1; },
       "request 1: node 0 has token -1 of a vocabulary of 10"},
      {[](PackedForest& f) { f.token[3] = 8; },
       "request 0: two children of node 0 carry token 8"},
      {[](PackedForest& f) { f.depth[2] = 1; },
       "depth does not agree with the parents"},
      {[](PackedForest& f) { f.request[4] = 0; },
       "request does not agree with the parents"},
      {[](PackedForest& f) { f.mask_words = 2; },
       "mask_words does not agree with the parents"},
      {[](PackedForest& f) { f.ancestors[3] ^= 2; },
       "ancestors does not agree with the parents"},
  };
  ASSERT_TRUE(Validate(SmallForest(), limits).ok());
  for (const BrokenForest& broken : cases) {
    PackedForest forest = SmallForest();

    broken.break_it(forest);

    EXPECT_EQ(Validate(forest, limits),
              absl::InvalidArgumentError("forest: " + broken.message));
  }
}

TEST(ValidateForestTest, TheNodesOfABatchAreLimited) {
  const ForestLimits limits = {.max_requests = 2,
                               .max_nodes = 5,
                               .max_nodes_per_request = 4,
                               .vocabulary = 10};

  EXPECT_EQ(Validate(SmallForest(), limits),
            absl::InvalidArgumentError("forest: 6 nodes; the limit is 5"));
}

TEST(ValidateForestTest, NodesWithoutAParentMayCarryTheSameToken) {
  const std::vector<NodeList> lists = {{{7, 7}, {kNoParent, kNoParent}}};

  EXPECT_TRUE(Validate(*BuildForest(lists), kWide).ok());
}

TEST(ValidateForestTest, AnEmptyForestIsValid) {
  EXPECT_TRUE(Validate(PackedForest{}, kWide).ok());
}

}  // namespace
}  // namespace bole
