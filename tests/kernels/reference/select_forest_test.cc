#include "kernels/reference/select_forest.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "gtest/gtest.h"
#include "tests/kernels/forest_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

template <typename T>
std::vector<T> First(const GuardedBuffer<T>& buffer, size_t count) {
  return {buffer.data(), buffer.data() + count};
}

ForestShape RandomShape(std::mt19937& rng) {
  const int requests = UniformInt(rng, 1, 6);
  const int nodes = UniformInt(rng, 1, 80);
  return {
      .max_requests = requests,
      .draft = {.top_k = UniformInt(rng, 1, 4), .depth = UniformInt(rng, 1, 6)},
      .max_rows = UniformInt(rng, requests, 150),
      .max_nodes_per_tree = nodes,
      .mask_words = (nodes + 31) / 32 + UniformInt(rng, 0, 1)};
}

constexpr CandidateKind kKinds[] = {
    CandidateKind::kRandom, CandidateKind::kTies, CandidateKind::kAllEqual};

// Two requests around one that takes no part. Candidates of each: 0 and 1 under
// the root, 2 .. 5 under them in pairs.
TEST(SelectForestTest, ASmallForestIsWhatOneWouldWriteDown) {
  std::mt19937 rng(1);
  ForestProblem problem(rng,
                        {.max_requests = 3,
                         .draft = {.top_k = 2, .depth = 2},
                         .max_rows = 9,
                         .max_nodes_per_tree = 5,
                         .mask_words = 1},
                        CandidateKind::kRandom);
  for (int b = 0; b < 3; ++b) {
    problem.root[b] = 100 * b;
    problem.node_limit[b] = b == 1 ? 0 : 99;
    problem.depth_limit[b] = 2;
    problem.floor[b] = 1;
    problem.cap[b] = 5;
    for (int c = 0; c < 6; ++c) {
      problem.token[6 * b + c] = 100 * b + c + 1;
      problem.parent[6 * b + c] = c < 2 ? -1 : (c - 2) / 2;
    }
  }
  const std::vector<float> first = {-1, -2, -1.5f, -3, -2, -9};
  const std::vector<float> last = {-4, -1.25f, -5, -4, -2, -1.25f};
  std::copy(first.begin(), first.end(), problem.log_rho.data());
  std::copy(last.begin(), last.end(), problem.log_rho.data() + 12);
  problem.budget[0] = 7;

  reference::SelectForest(problem.Params());

  // Two roots, then -1, -1.25, -1.25, -1.5, and the first of three at -2.
  EXPECT_EQ(problem.num_rows[0], 7);
  EXPECT_EQ(First(problem.first_row, 4), (std::vector<int32_t>{0, 4, 4, 7}));
  EXPECT_EQ(First(problem.request, 7),
            (std::vector<int32_t>{0, 0, 0, 0, 2, 2, 2}));
  EXPECT_EQ(First(problem.node, 7),
            (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2}));
  EXPECT_EQ(First(problem.row_parent, 7),
            (std::vector<int32_t>{-1, 0, 0, 1, -1, 0, 1}));
  EXPECT_EQ(First(problem.depth, 7),
            (std::vector<int32_t>{0, 1, 1, 2, 0, 1, 2}));
  EXPECT_EQ(First(problem.row_token, 7),
            (std::vector<int32_t>{0, 1, 2, 3, 200, 202, 206}));
  EXPECT_EQ(First(problem.ancestors, 7),
            (std::vector<uint32_t>{1, 3, 5, 11, 1, 3, 7}));
}

// What is selected, found by sorting everything: first each tree's own best, of
// the floor's number, then the best of all.
TEST(SelectForestTest, SelectsTheLikeliestWithinEveryBound) {
  std::mt19937 rng(2);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    ForestProblem problem(rng, RandomShape(rng), kKinds[round % 3]);

    reference::SelectForest(problem.Params());

    std::vector<std::tuple<float, int, int>> order;
    std::vector<int> left(problem.shape.max_requests);
    std::vector<int> owed(problem.shape.max_requests);
    std::multiset<std::pair<int, int>> want;  // Request and token.
    int budget = problem.budget[0] - problem.num_roots();
    for (int b = 0; b < problem.shape.max_requests; ++b) {
      if (problem.node_limit[b] == 0) continue;
      left[b] = std::min({problem.node_limit[b], problem.cap[b],
                          problem.shape.max_nodes_per_tree}) -
                1;
      owed[b] = problem.floor[b] - 1;
      want.emplace(b, problem.root[b]);
      const ProposalTree tree = problem.Tree(b);
      std::vector<int> depth(tree.size());
      for (int i = 1; i < tree.size(); ++i) {
        depth[i] = depth[tree.parent[i]] + 1;
        if (depth[i] > problem.depth_limit[b]) continue;
        order.emplace_back(-tree.log_rho[i], b, i);
      }
    }
    std::sort(order.begin(), order.end());
    for (const bool is_floor : {true, false}) {
      for (auto& [value, b, i] : order) {
        if (budget == 0 || left[b] == 0 || i == 0) continue;
        if (is_floor && owed[b]-- <= 0) continue;
        --budget;
        --left[b];
        want.emplace(b, problem.Tree(b).token[i]);
        i = 0;  // Taken.
      }
    }
    std::multiset<std::pair<int, int>> got;
    for (int row = 0; row < problem.num_rows[0]; ++row) {
      got.emplace(problem.request[row], problem.row_token[row]);
    }
    ASSERT_EQ(got, want);
  }
}

// Without limits of positions and tokens it is the functions of common.
TEST(SelectForestTest, PacksAsPackForestDoes) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    ForestProblem problem(rng, RandomShape(rng), kKinds[round % 3]);
    std::vector<ProposalTree> trees;
    std::vector<TreeBounds> bounds;
    for (int b = 0; b < problem.shape.max_requests; ++b) {
      problem.node_limit[b] = 1000;
      problem.depth_limit[b] = 1000;
      trees.push_back(problem.Tree(b));
      problem.floor[b] = 1;
      bounds.push_back({.floor = 1, .cap = problem.cap[b]});
    }
    problem.budget[0] = problem.shape.max_rows;
    int left = problem.shape.max_rows - problem.shape.max_requests;
    for (int b = 0; b < problem.shape.max_requests; ++b) {
      bounds[b].floor = UniformInt(rng, 1, std::min(left + 1, bounds[b].cap));
      problem.floor[b] = bounds[b].floor;
      left -= bounds[b].floor - 1;
    }

    reference::SelectForest(problem.Params());

    const PackedForest forest =
        PackForest(trees, SelectNodes(trees, problem.budget[0], bounds)).forest;
    const size_t rows = forest.num_nodes();
    ASSERT_EQ(problem.num_rows[0], forest.num_nodes());
    EXPECT_EQ(First(problem.first_row, trees.size() + 1), forest.first_node);
    EXPECT_EQ(First(problem.request, rows), forest.request);
    EXPECT_EQ(First(problem.row_parent, rows), forest.parent);
    EXPECT_EQ(First(problem.depth, rows), forest.depth);
    EXPECT_EQ(First(problem.row_token, rows), forest.token);
    for (size_t i = 0; i < rows; ++i) {
      for (int w = 0; w < problem.shape.mask_words; ++w) {
        const bool is_there = w < forest.mask_words;
        ASSERT_EQ(problem.ancestors[i * problem.shape.mask_words + w],
                  is_there ? forest.ancestors[i * forest.mask_words + w] : 0u);
      }
    }
    for (size_t i = rows; i < problem.request.size(); ++i) {
      ASSERT_EQ(problem.request[i], Poison<int32_t>());
    }
  }
}

}  // namespace
}  // namespace bole::testing
