#include "common/proposal_tree.h"

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// 0 - 1 - 2 and 0 - 3.
ProposalTree SmallTree() {
  return {{kNoParent, 0, 1, 0}, {7, 8, 9, 5}, {0.0f, -0.5f, -0.5f, -2.0f}};
}

TEST(ProposalTreeTest, RandomTreesAreValid) {
  std::mt19937 rng(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const int num_nodes = testing::UniformInt(rng, 1, 60);

    const ProposalTree tree = testing::RandomTree(rng, num_nodes);

    EXPECT_EQ(tree.size(), num_nodes);
    EXPECT_TRUE(Validate(tree).ok()) << Validate(tree);
  }
}

TEST(ProposalTreeTest, AnImpossibleCandidateMayHaveChildren) {
  ProposalTree tree = SmallTree();
  tree.log_rho[1] = tree.log_rho[2] = -kInfinity;

  EXPECT_TRUE(Validate(tree).ok()) << Validate(tree);
}

struct BrokenTree {
  std::string what;
  std::function<void(ProposalTree&)> break_it;
  std::string message;
};

TEST(ProposalTreeTest, EveryBrokenInvariantIsNamedWithItsValue) {
  const std::vector<BrokenTree> cases = {
      {"empty", [](ProposalTree& t) { t = {}; }, "tree: no root"},
      {"token missing", [](ProposalTree& t) { t.token.pop_back(); },
       "tree: arrays differ in length: parent 4, token 3, log_rho 4"},
      {"log_rho missing", [](ProposalTree& t) { t.log_rho.pop_back(); },
       "tree: arrays differ in length: parent 4, token 4, log_rho 3"},
      {"root has a parent", [](ProposalTree& t) { t.parent[0] = 0; },
       "tree: the root has parent 0"},
      {"root uncertain", [](ProposalTree& t) { t.log_rho[0] = -1.0f; },
       "tree: the root has log_rho -1"},
      {"root NaN", [](ProposalTree& t) { t.log_rho[0] = kNan; },
       "tree: the root has log_rho nan"},
      {"second root", [](ProposalTree& t) { t.parent[2] = kNoParent; },
       "tree: node 2 has parent -1, which is not an earlier node"},
      {"own parent", [](ProposalTree& t) { t.parent[2] = 2; },
       "tree: node 2 has parent 2, which is not an earlier node"},
      {"parent after child", [](ProposalTree& t) { t.parent[1] = 3; },
       "tree: node 1 has parent 3, which is not an earlier node"},
      {"negative token", [](ProposalTree& t) { t.token[3] = -9; },
       "tree: node 3 has token -9"},
      {"likelier than its parent", [](ProposalTree& t) { t.log_rho[2] = 0; },
       "tree: node 2 has log_rho 0, its parent 1 has -0.5"},
      {"NaN", [](ProposalTree& t) { t.log_rho[3] = kNan; },
       "tree: node 3 has log_rho nan, its parent 0 has 0"},
  };
  for (const BrokenTree& broken : cases) {
    SCOPED_TRACE(broken.what);
    ProposalTree tree = SmallTree();
    ASSERT_TRUE(Validate(tree).ok());

    broken.break_it(tree);

    EXPECT_EQ(Validate(tree), absl::InvalidArgumentError(broken.message));
  }
}

}  // namespace
}  // namespace bole
