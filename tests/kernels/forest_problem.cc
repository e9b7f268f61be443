#include "tests/kernels/forest_problem.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float LogProbability(std::mt19937& rng, CandidateKind kind) {
  if (kind == CandidateKind::kAllEqual) return 0;
  if (kind == CandidateKind::kTies) {
    const int level = UniformInt(rng, 0, 12) / 4;
    return level == 3 ? -kInfinity : -0.25f * static_cast<float>(level);
  }
  return std::log(std::uniform_real_distribution<float>(0.001f, 1.0f)(rng));
}

template <typename T>
void ExpectSame(const GuardedBuffer<T>& got, const GuardedBuffer<T>& want,
                const std::string& what) {
  EXPECT_TRUE(got.GuardsIntact()) << what;
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(std::memcmp(got.data() + i, want.data() + i, sizeof(T)), 0)
        << what << " " << i << ": " << got[i] << ", expected " << want[i];
  }
}

}  // namespace

ForestProblem::ForestProblem(std::mt19937& rng, const ForestShape& in,
                             CandidateKind kind)
    : shape(in),
      budget(1),
      floor(in.max_requests),
      cap(in.max_requests),
      root(in.max_requests),
      node_limit(in.max_requests),
      depth_limit(in.max_requests),
      token(static_cast<size_t>(in.max_requests) * in.draft.num_candidates()),
      parent(token.size()),
      log_rho(token.size()),
      num_rows(1),
      first_row(in.max_requests + 1),
      request(in.max_rows),
      node(in.max_rows),
      row_parent(in.max_rows),
      depth(in.max_rows),
      row_token(in.max_rows),
      ancestors(static_cast<size_t>(in.max_rows) * in.mask_words) {
  for (int b = 0; b < in.max_requests; ++b) {
    root[b] = UniformInt(rng, 0, 99999);
    const bool is_in = UniformInt(rng, 0, 3) > 0 && num_roots() < in.max_rows;
    const bool is_short = UniformInt(rng, 0, 3) == 0;
    const int nodes = is_short ? UniformInt(rng, 1, 20) : 1000;
    node_limit[b] = is_in ? nodes : 0;
    depth_limit[b] = UniformInt(rng, 0, 3) == 0
                         ? UniformInt(rng, 0, in.draft.depth)
                         : in.draft.depth + UniformInt(rng, 0, 5);
    FillTree(rng, kind, b);
    cap[b] = UniformInt(rng, 0, 2) == 0
                 ? UniformInt(rng, 1, in.max_nodes_per_tree)
                 : in.max_nodes_per_tree;
    floor[b] = 1;
  }
  const bool has_floors = UniformInt(rng, 0, 2) > 0;
  for (int b = 0; b < in.max_requests && has_floors; ++b) {
    const int left = in.max_rows - num_owed() + (node_limit[b] > 0 ? 1 : 0);
    if (left < 1) break;
    floor[b] = UniformInt(rng, 1, std::min(cap[b], left));
  }
  const bool is_tight = UniformInt(rng, 0, 3) == 0;
  budget[0] = UniformInt(rng, num_owed(), is_tight ? num_owed() : in.max_rows);
}

int ForestProblem::num_owed() const {
  int owed = 0;
  for (int b = 0; b < shape.max_requests; ++b) {
    owed += node_limit[b] > 0 ? floor[b] : 0;
  }
  return owed;
}

void ForestProblem::FillTree(std::mt19937& rng, CandidateKind kind,
                             int request) {
  const int k = shape.draft.top_k;
  const int num_candidates = shape.draft.num_candidates();
  const size_t first = static_cast<size_t>(request) * num_candidates;
  int level_begin = 0;
  int level_end = k;
  for (int c = 0; c < num_candidates; ++c) {
    if (c >= k && (c - k) % (k * k) == 0) {
      level_begin = c - (c == k ? k : k * k);
      level_end = c;
    }
    const bool starts_lane = c >= k && (c - k) % k == 0;
    int32_t& own = parent[first + c];
    if (c < k) {
      own = -1;
    } else if (starts_lane) {
      // Another for every lane: the lanes are different candidates.
      const int lane = (c - level_end) / k;
      const int share = (level_end - level_begin) / k;
      own = level_begin + lane * share + UniformInt(rng, 0, share - 1);
    } else {
      own = parent[first + c - 1];
    }
    const float before = own < 0 ? 0 : log_rho[first + own];
    log_rho[first + c] = before + LogProbability(rng, kind);
    token[first + c] = UniformInt(rng, 0, 99999);
  }
}

int ForestProblem::num_roots() const {
  int roots = 0;
  for (const int32_t limit : node_limit.all()) {
    roots += limit > 0 && limit != Poison<int32_t>() ? 1 : 0;
  }
  return roots;
}

ProposalTree ForestProblem::Tree(int request) const {
  const size_t count = shape.draft.num_candidates();
  ProposalTree tree{{kNoParent}, {root[request]}, {0.0f}};
  for (size_t c = request * count; c < (request + 1) * count; ++c) {
    tree.parent.push_back(parent[c] + 1);
    tree.token.push_back(token[c]);
    tree.log_rho.push_back(log_rho[c]);
  }
  return tree;
}

void ExpectSameForest(const ForestProblem& got, const ForestProblem& want) {
  ExpectSame(got.num_rows, want.num_rows, "num_rows");
  ExpectSame(got.first_row, want.first_row, "first_row");
  ExpectSame(got.request, want.request, "request");
  ExpectSame(got.node, want.node, "node");
  ExpectSame(got.row_parent, want.row_parent, "parent");
  ExpectSame(got.depth, want.depth, "depth");
  ExpectSame(got.row_token, want.row_token, "token");
  ExpectSame(got.ancestors, want.ancestors, "ancestors");
}

}  // namespace bole::testing
