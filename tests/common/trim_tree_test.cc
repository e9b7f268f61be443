#include "common/trim_tree.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "common/proposal_tree.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::RandomTree;
using ::bole::testing::UniformInt;

std::vector<int> Depths(const ProposalTree& tree) {
  std::vector<int> depths;
  for (const int32_t parent : tree.parent) {
    depths.push_back(parent == kNoParent ? 0 : depths[parent] + 1);
  }
  return depths;
}

TEST(TrimTreeTest, KeepsTheLikeliestOfTheShallow) {
  std::mt19937 rng(1);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const ProposalTree tree = RandomTree(rng, UniformInt(rng, 1, 60));
    const int max_nodes = UniformInt(rng, 1, 40);
    const int max_depth = UniformInt(rng, 0, 5);

    const ProposalTree trimmed = TrimTree(tree, max_nodes, max_depth);

    ASSERT_TRUE(Validate(trimmed).ok()) << Validate(trimmed);
    const std::vector<int> depths = Depths(tree);
    const int num_shallow = static_cast<int>(std::count_if(
        depths.begin(), depths.end(), [&](int d) { return d <= max_depth; }));
    EXPECT_EQ(trimmed.size(), std::min(num_shallow, max_nodes));
    // Random trees carry each token once, so that it names the node.
    float least = 0;
    for (int i = 0; i < trimmed.size(); ++i) {
      const int node = trimmed.token[i];
      EXPECT_LE(depths[node], max_depth);
      EXPECT_EQ(trimmed.log_rho[i], tree.log_rho[node]);
      if (i == 0) continue;
      EXPECT_EQ(trimmed.token[trimmed.parent[i]], tree.parent[node]);
      least = std::min(least, trimmed.log_rho[i]);
    }
    for (int node = 0; node < tree.size(); ++node) {
      const bool kept =
          std::count(trimmed.token.begin(), trimmed.token.end(), node) > 0;
      if (!kept && depths[node] <= max_depth) {
        EXPECT_LE(tree.log_rho[node], least);
      }
    }
  }
}

TEST(LikeliestChainTest, FollowsTheLikeliestChildToItsEnd) {
  // 0 - 1 - 3
  //   + 2 - 4 - 6   (5 is another child of 2.)
  const ProposalTree tree = {.parent = {kNoParent, 0, 0, 1, 2, 2, 4},
                             .token = {10, 11, 12, 13, 14, 15, 16},
                             .log_rho = {0, -2, -1, -2.5f, -3, -3, -9}};

  const ProposalTree chain = LikeliestChain(tree);

  EXPECT_EQ(chain, (ProposalTree{.parent = {kNoParent, 0, 1, 2},
                                 .token = {10, 12, 14, 16},
                                 .log_rho = {0, -1, -3, -9}}));
}

TEST(LikeliestChainTest, IsAPathOfTheTreeThatNoSiblingBeats) {
  std::mt19937 rng(2);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const ProposalTree tree = RandomTree(rng, UniformInt(rng, 1, 60));

    const ProposalTree chain = LikeliestChain(tree);

    ASSERT_TRUE(Validate(chain).ok()) << Validate(chain);
    int node = 0;
    for (int level = 0; level < chain.size(); ++level) {
      EXPECT_EQ(chain.token[level], tree.token[node]);
      int next = kNoParent;
      for (int i = 1; i < tree.size(); ++i) {
        if (tree.parent[i] != node) continue;
        if (next == kNoParent || tree.log_rho[i] > tree.log_rho[next]) next = i;
      }
      EXPECT_EQ(next == kNoParent, level + 1 == chain.size());
      if (next != kNoParent) node = next;
    }
  }
}

}  // namespace
}  // namespace bole
