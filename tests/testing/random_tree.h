// Seeded random proposal trees for property tests.
#ifndef BOLE_TESTS_TESTING_RANDOM_TREE_H_
#define BOLE_TESTS_TESTING_RANDOM_TREE_H_

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/proposal_tree.h"

namespace bole::testing {

// Uniform in [low, high].
inline int UniformInt(std::mt19937& rng, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(rng);
}

// A valid tree of any shape. A third of the edges are certain, so that ties are
// common, and a few are impossible. No two nodes carry the same token.
inline ProposalTree RandomTree(std::mt19937& rng, int num_nodes) {
  std::uniform_real_distribution<float> probability(0.01f, 1.0f);
  ProposalTree tree{{kNoParent}, {0}, {0.0f}};
  for (int i = 1; i < num_nodes; ++i) {
    const int parent = UniformInt(rng, 0, i - 1);
    const int kind = UniformInt(rng, 0, 29);
    float log_rho = tree.log_rho[parent];
    if (kind >= 10) log_rho += std::log(probability(rng));
    if (kind == 0) log_rho = -std::numeric_limits<float>::infinity();
    tree.parent.push_back(parent);
    tree.token.push_back(i);
    tree.log_rho.push_back(log_rho);
  }
  return tree;
}

// `num_trees` trees of 1 .. max_nodes nodes.
inline std::vector<ProposalTree> RandomTrees(std::mt19937& rng, int num_trees,
                                             int max_nodes) {
  std::vector<ProposalTree> trees;
  trees.reserve(num_trees);
  for (int t = 0; t < num_trees; ++t) {
    trees.push_back(RandomTree(rng, UniformInt(rng, 1, max_nodes)));
  }
  return trees;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_RANDOM_TREE_H_
