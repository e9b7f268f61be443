// Trees grown level by level, against the same trees built node by node.
#include "kernels/reference/grow_trees.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/proposal_tree.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::UniformInt;

constexpr int32_t kUntouched = -7777;
constexpr int kVocabulary = 9;
using Path = std::vector<int32_t>;

struct Child {
  int32_t token;
  float log_prob;
};

// The k likeliest tokens after a path, which decides them. One path in four is
// followed by a certain token, one in four by equally likely ones.
std::vector<Child> Draft(uint32_t seed, const Path& path, int k) {
  std::mt19937 rng(seed);
  for (const int32_t token : path) rng.seed(rng() + 31 * token + 1);
  const int kind = UniformInt(rng, 0, 3);
  std::vector<float> probability(kVocabulary);
  for (float& p : probability) {
    p = kind == 1 ? 1.0f : static_cast<float>(UniformInt(rng, 1, 1000));
  }
  if (kind == 0) {
    std::fill(probability.begin(), probability.end(), 0.0f);
    probability[UniformInt(rng, 0, kVocabulary - 1)] = 1;
  }
  const float sum =
      std::accumulate(probability.begin(), probability.end(), 0.0f);
  std::vector<int32_t> order(kVocabulary);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return probability[a] > probability[b];
  });
  std::vector<Child> children;
  children.reserve(k);
  for (int i = 0; i < k; ++i) {
    children.push_back({order[i], std::log(probability[order[i]] / sum)});
  }
  return children;
}

struct Candidate {
  Path path;
  int32_t parent;
  float log_rho;
};

// The definition: on every level expand the best k of the level before, and
// number the children as they come.
std::vector<Candidate> GrowNodeByNode(uint32_t seed, DraftShape shape) {
  std::vector<Candidate> candidates;
  std::vector<int32_t> frontier = {-1};
  for (int level = 0; level < shape.depth; ++level) {
    const auto first = static_cast<int32_t>(candidates.size());
    for (const int32_t parent : frontier) {
      const Path path = parent < 0 ? Path{} : candidates[parent].path;
      const float rho = parent < 0 ? 0 : candidates[parent].log_rho;
      for (const Child& child : Draft(seed, path, shape.top_k)) {
        candidates.push_back({path, parent, rho + child.log_prob});
        candidates.back().path.push_back(child.token);
      }
    }
    frontier.resize(candidates.size() - first);
    std::iota(frontier.begin(), frontier.end(), first);
    std::stable_sort(frontier.begin(), frontier.end(), [&](int a, int b) {
      return candidates[a].log_rho > candidates[b].log_rho;
    });
    frontier.resize(shape.top_k);
  }
  return candidates;
}

// All the arrays of GrowTrees, and a drafter that runs the lanes. The drafter
// knows of a lane only what a real one would: its token, and the hidden vector
// it was told to take, which here is the path so far.
class Growth {
 public:
  Growth(DraftShape shape, int requests, int max_requests, uint32_t seed)
      : shape_(shape),
        requests_(requests),
        max_requests_(max_requests),
        mask_words_(shape.num_draft_nodes() / 32 + 1),
        seed_(seed),
        hidden_(requests),
        node_path_(requests) {
    const size_t lanes = static_cast<size_t>(max_requests) * shape.top_k;
    const size_t all = static_cast<size_t>(max_requests) *
                       static_cast<size_t>(shape.num_candidates());
    for (auto* ints : {&frontier, &row_token, &row_parent, &hidden_row}) {
      ints->assign(lanes, kUntouched);
    }
    ancestors.assign(lanes * mask_words_, 0xDEADBEEF);
    token.assign(all, kUntouched);
    parent.assign(all, kUntouched);
    log_rho.assign(all, kUntouched);
  }

  void Run() {
    for (int level = 0; level < shape_.depth; ++level) {
      std::vector<int32_t> top_token;
      std::vector<float> top_log_prob;
      for (const Path& path : hidden_) {
        for (const Child& child :
             Draft(seed_ + Request(path, hidden_), path, shape_.top_k)) {
          top_token.push_back(child.token);
          top_log_prob.push_back(child.log_prob);
        }
      }
      Grow(level, top_token, top_log_prob);
      if (level + 1 < shape_.depth) RunLanes(level);
    }
  }

  std::vector<int32_t> frontier, row_token, row_parent, hidden_row, token,
      parent;
  std::vector<uint32_t> ancestors;
  std::vector<float> log_rho;

 private:
  // The request of a row of the batch just run.
  uint32_t Request(const Path& row, const std::vector<Path>& rows) const {
    const auto index = static_cast<int>(&row - rows.data());
    return index * requests_ / static_cast<int>(rows.size());
  }

  void Grow(int level, const std::vector<int32_t>& top_token,
            const std::vector<float>& top_log_prob) {
    const int32_t count = requests_;
    GrowTrees({.max_requests = max_requests_,
               .requests = {&count, max_requests_},
               .shape = shape_,
               .level = level,
               .mask_words = mask_words_,
               .top_token = top_token.data(),
               .top_log_prob = top_log_prob.data(),
               .trees = {token.data(), parent.data(), log_rho.data()},
               .frontier = frontier.data(),
               .row_token = row_token.data(),
               .row_parent = row_parent.data(),
               .hidden_row = hidden_row.data(),
               .ancestors = ancestors.data()});
  }

  void RunLanes(int level) {
    std::vector<Path> next;
    for (int row = 0; row < requests_ * shape_.top_k; ++row) {
      const int request = row / shape_.top_k;
      std::vector<Path>& nodes = node_path_[request];
      ASSERT_EQ(std::ssize(nodes), level * shape_.top_k + row % shape_.top_k);
      ASSERT_LT(hidden_row[row], std::ssize(hidden_));
      Path path = hidden_[hidden_row[row]];
      // The row's parent, a node of the same request, is where the path was.
      ASSERT_EQ(row_parent[row] < 0, level == 0);
      EXPECT_EQ(level == 0 ? Path{} : nodes[row_parent[row]], path);
      path.push_back(row_token[row]);
      nodes.push_back(path);
      ExpectMaskIsThePath(row, path, nodes);
      next.push_back(path);
    }
    hidden_ = next;
  }

  // Following parents from the newest node, every level has one ancestor.
  void ExpectMaskIsThePath(int row, const Path& path,
                           const std::vector<Path>& nodes) {
    size_t length = 0;
    for (int node = 0; node < mask_words_ * 32; ++node) {
      const uint32_t word = ancestors[row * mask_words_ + node / 32];
      if ((word >> (node % 32) & 1) == 0) continue;
      ASSERT_LT(node, std::ssize(nodes));
      EXPECT_EQ(nodes[node], Path(path.begin(), path.begin() + length + 1));
      ++length;
    }
    EXPECT_EQ(length, path.size());
  }

  const DraftShape shape_;
  const int requests_;
  const int max_requests_;
  const int mask_words_;
  const uint32_t seed_;       // For request 0; request b has seed_ + b.
  std::vector<Path> hidden_;  // Paths of the rows of the batch just run.
  std::vector<std::vector<Path>> node_path_;  // [B, node]
};

TEST(GrowTreesTest, EqualsATreeBuiltNodeByNode) {
  std::mt19937 rng(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const DraftShape shape = {.top_k = UniformInt(rng, 1, 6),
                              .depth = UniformInt(rng, 1, 8)};
    const int max_requests = UniformInt(rng, 1, 4);
    const int requests = UniformInt(rng, 0, max_requests);
    Growth growth(shape, requests, max_requests, round);

    growth.Run();

    const int count = shape.num_candidates();
    for (int b = 0; b < requests; ++b) {
      const std::vector<Candidate> want = GrowNodeByNode(round + b, shape);
      ASSERT_EQ(std::ssize(want), count);
      ProposalTree tree{{kNoParent}, {0}, {0}};
      for (int c = 0; c < count; ++c) {
        const int at = b * count + c;
        EXPECT_EQ(growth.token[at], want[c].path.back());
        EXPECT_EQ(growth.parent[at], want[c].parent);
        EXPECT_EQ(growth.log_rho[at], want[c].log_rho);
        tree.parent.push_back(growth.parent[at] + 1);
        tree.token.push_back(growth.token[at]);
        tree.log_rho.push_back(growth.log_rho[at]);
      }
      EXPECT_TRUE(Validate(tree).ok()) << Validate(tree);
    }
  }
}

TEST(GrowTreesTest, RequestsThatAreNotInUseAreNotWritten) {
  const DraftShape shape = {.top_k = 3, .depth = 4};
  Growth growth(shape, /*requests=*/1, /*max_requests=*/3, /*seed=*/5);

  growth.Run();

  const auto expect_untouched = [](const auto& values, auto untouched) {
    EXPECT_NE(values[0], untouched);
    EXPECT_TRUE(std::all_of(values.begin() + std::ssize(values) / 3,
                            values.end(),
                            [&](auto value) { return value == untouched; }));
  };
  expect_untouched(growth.token, kUntouched);
  expect_untouched(growth.parent, kUntouched);
  expect_untouched(growth.log_rho, kUntouched);
  expect_untouched(growth.frontier, kUntouched);
  expect_untouched(growth.row_token, kUntouched);
  expect_untouched(growth.row_parent, kUntouched);
  expect_untouched(growth.hidden_row, kUntouched);
  expect_untouched(growth.ancestors, 0xDEADBEEF);
}

TEST(GrowTreesTest, TheParentOfACandidateIsTheOneThatWasInItsLane) {
  // k = 2: candidates 0, 1; then 2, 3 of lane 0 and 4, 5 of lane 1.
  const DraftShape shape = {.top_k = 2, .depth = 3};
  const int32_t count = 1;
  std::vector<int32_t> token(10), parent(10), frontier(2), row_token(2),
      row_parent(2), hidden_row(2);
  std::vector<float> log_rho(10);
  std::vector<uint32_t> ancestors(2);
  const auto grow = [&](int level, std::vector<int32_t> top,
                        std::vector<float> log_prob) {
    GrowTrees({.max_requests = 1,
               .requests = {&count, 1},
               .shape = shape,
               .level = level,
               .mask_words = 1,
               .top_token = top.data(),
               .top_log_prob = log_prob.data(),
               .trees = {token.data(), parent.data(), log_rho.data()},
               .frontier = frontier.data(),
               .row_token = row_token.data(),
               .row_parent = row_parent.data(),
               .hidden_row = hidden_row.data(),
               .ancestors = ancestors.data()});
  };
  using Ints = std::vector<int32_t>;

  // A tie keeps the order of the candidates.
  grow(0, {7, 8}, {-1.0f, -1.0f});
  EXPECT_EQ(frontier, (Ints{0, 1}));
  EXPECT_EQ(row_token, (Ints{7, 8}));
  EXPECT_EQ(row_parent, (Ints{-1, -1}));
  EXPECT_EQ(ancestors, (std::vector<uint32_t>{0b01, 0b10}));

  // Both of the best are children of lane 1: candidates 4, then 5.
  grow(1, {1, 2, 3, 4}, {-2.0f, -3.0f, 0.0f, -1.0f});
  EXPECT_EQ(frontier, (Ints{4, 5}));
  EXPECT_EQ(row_token, (Ints{3, 4}));
  EXPECT_EQ(row_parent, (Ints{1, 1}));
  EXPECT_EQ(hidden_row, (Ints{1, 1}));
  EXPECT_EQ(ancestors, (std::vector<uint32_t>{0b0110, 0b1010}));

  // The last level chooses no frontier.
  grow(2, {5, 6, 5, 6}, {-1.0f, -1.0f, -1.0f, -1.0f});
  EXPECT_EQ(frontier, (Ints{4, 5}));
  EXPECT_EQ(parent, (Ints{-1, -1, 0, 0, 1, 1, 4, 4, 5, 5}));
  EXPECT_EQ(log_rho,
            (std::vector<float>{-1, -1, -3, -4, -1, -2, -2, -2, -3, -3}));
}

}  // namespace
}  // namespace bole::reference
