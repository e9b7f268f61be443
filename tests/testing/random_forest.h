// Row batches on the host, from the parents of each request's tree.
#ifndef BOLE_TESTS_TESTING_RANDOM_FOREST_H_
#define BOLE_TESTS_TESTING_RANDOM_FOREST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "kernels/row_batch.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

// The parent of every node, -1 for a node that continues the prefix.
using Parents = std::vector<int>;

struct TreeOptions {
  int num_nodes = 1;
  int max_depth = 16;  // The largest depth of a node; the first has 0.
  int max_roots = 1;   // Parentless nodes.
};

// Half of the edges go to the node before, so that deep trees are common.
inline Parents RandomParents(std::mt19937& rng, const TreeOptions& options) {
  Parents parents = {-1};
  std::vector<int> depth = {0};
  int num_roots = 1;
  while (std::ssize(parents) < options.num_nodes) {
    const int last = static_cast<int>(parents.size()) - 1;
    int parent = UniformInt(rng, 0, 1) == 0 ? last : UniformInt(rng, 0, last);
    if (num_roots < options.max_roots && UniformInt(rng, 0, 7) == 0) {
      parent = -1;
      ++num_roots;
    }
    while (parent >= 0 && depth[parent] >= options.max_depth) --parent;
    if (parent < 0 && num_roots >= options.max_roots) parent = 0;
    parents.push_back(parent);
    depth.push_back(parent < 0 ? 0 : depth[parent] + 1);
  }
  return parents;
}

// So many nodes, or none, up to 16 deep, with up to 3 roots.
inline Parents RandomParentsOf(std::mt19937& rng, int num_nodes) {
  if (num_nodes == 0) return {};
  return RandomParents(rng, {.num_nodes = num_nodes,
                             .max_depth = UniformInt(rng, 1, 16),
                             .max_roots = UniformInt(rng, 1, 3)});
}

inline Parents ChainParents(int num_nodes) {
  Parents parents(num_nodes);
  std::iota(parents.begin(), parents.end(), -1);
  return parents;
}

// `num_trees` trees of at most max_nodes nodes; one in five has none.
inline std::vector<Parents> RandomForest(std::mt19937& rng, int num_trees,
                                         int max_nodes) {
  std::vector<Parents> trees(num_trees);
  for (Parents& tree : trees) {
    if (UniformInt(rng, 0, 4) == 0) continue;
    tree = RandomParentsOf(rng, UniformInt(rng, 1, max_nodes));
  }
  return trees;
}

// The nodes from a root to `node`, both included.
inline std::vector<int> PathTo(const Parents& parents, int node) {
  std::vector<int> path;
  for (; node >= 0; node = parents[node]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

// Owns what a RowBatch points to. What no used row or request owns is poison.
// Slots are the requests' own numbers and `committed` is 0: set them at will.
struct HostBatch {
  std::vector<Parents> trees;
  int mask_words = 0;
  int max_pages = 0;
  GuardedBuffer<int32_t> count, first_row, request, node, parent, depth;
  GuardedBuffer<uint32_t> ancestors;
  GuardedBuffer<int32_t> slot, committed, page_table;

  int max_rows() const { return static_cast<int>(request.size()); }
  int num_rows() const { return count[0]; }
  int num_requests() const { return static_cast<int>(trees.size()); }
  int max_path() const {
    int nodes = 0;
    for (int i = 0; i < num_rows(); ++i) nodes = std::max(nodes, depth[i] + 1);
    return nodes;
  }

  RowBatch View() const {
    return {.max_requests = static_cast<int>(slot.size()),
            .max_pages = max_pages,
            .mask_words = mask_words,
            .max_path = max_path(),
            .rows = {.count = count.data(), .max = max_rows()},
            .first_row = first_row.data(),
            .request = request.data(),
            .node = node.data(),
            .parent = parent.data(),
            .depth = depth.data(),
            .ancestors = ancestors.data(),
            .slot = slot.data(),
            .committed = committed.data(),
            .page_table = page_table.data()};
  }
};

struct BatchOptions {
  bool chains = false;     // mask_words 0; every tree must be a chain.
  int spare_rows = 0;      // Capacity beyond the rows in use,
  int spare_requests = 0;  // and beyond the requests.
};

// A tree without nodes is a request without rows.
inline HostBatch PackTrees(std::span<const Parents> trees,
                           const BatchOptions& options = {}) {
  size_t num_rows = 0;
  size_t max_nodes = 1;
  for (const Parents& tree : trees) {
    num_rows += tree.size();
    max_nodes = std::max(max_nodes, tree.size());
  }
  const size_t rows = num_rows + options.spare_rows;
  const size_t requests = trees.size() + options.spare_requests;
  const size_t words = options.chains ? 0 : (max_nodes + 31) / 32;
  HostBatch batch = {.trees = {trees.begin(), trees.end()},
                     .mask_words = static_cast<int>(words),
                     .count = GuardedBuffer<int32_t>(1),
                     .first_row = GuardedBuffer<int32_t>(requests + 1),
                     .request = GuardedBuffer<int32_t>(rows),
                     .node = GuardedBuffer<int32_t>(rows),
                     .parent = GuardedBuffer<int32_t>(rows),
                     .depth = GuardedBuffer<int32_t>(rows),
                     .ancestors = GuardedBuffer<uint32_t>(rows * words),
                     .slot = GuardedBuffer<int32_t>(requests),
                     .committed = GuardedBuffer<int32_t>(requests),
                     .page_table = {}};
  batch.count[0] = static_cast<int32_t>(num_rows);
  int row = 0;
  for (size_t b = 0; b < trees.size(); ++b) {
    batch.first_row[b] = row;
    batch.slot[b] = static_cast<int32_t>(b);
    batch.committed[b] = 0;
    for (size_t i = 0; i < trees[b].size(); ++i, ++row) {
      const std::vector<int> path = PathTo(trees[b], static_cast<int>(i));
      batch.request[row] = static_cast<int32_t>(b);
      batch.node[row] = static_cast<int32_t>(i);
      batch.parent[row] = trees[b][i];
      batch.depth[row] = static_cast<int32_t>(path.size()) - 1;
      if (words == 0) continue;
      std::ranges::fill(batch.ancestors.span(row * words, words), 0u);
      for (const int j : path) {
        batch.ancestors[row * words + j / 32] |= 1u << (j % 32);
      }
    }
  }
  for (size_t b = trees.size(); b <= requests; ++b) batch.first_row[b] = row;
  return batch;
}

// Owns what a RowPath points to.
struct HostPath {
  GuardedBuffer<int32_t> first, row;

  RowPath View() const { return {.first = first.data(), .row = row.data()}; }
  std::span<const int32_t> rows(int request) const {
    return row.span(first[request], first[request + 1] - first[request]);
  }
};

// The given nodes of every request, in order.
inline HostPath MakePath(const HostBatch& batch,
                         std::span<const std::vector<int>> nodes) {
  size_t total = 0;
  for (const std::vector<int>& path : nodes) total += path.size();
  HostPath out = {.first = GuardedBuffer<int32_t>(batch.first_row.size()),
                  .row = GuardedBuffer<int32_t>(total)};
  int end = 0;
  for (size_t b = 0; b + 1 < out.first.size(); ++b) {
    out.first[b] = end;
    if (b >= nodes.size()) continue;
    for (const int node : nodes[b]) out.row[end++] = batch.first_row[b] + node;
  }
  out.first[out.first.size() - 1] = end;
  return out;
}

// A path from the root to any node of every tree; one request in four accepts
// nothing.
inline HostPath RandomPaths(std::mt19937& rng, const HostBatch& batch) {
  std::vector<std::vector<int>> nodes;
  for (const Parents& tree : batch.trees) {
    const int last = static_cast<int>(tree.size()) - 1;
    const bool empty = tree.empty() || UniformInt(rng, 0, 3) == 0;
    nodes.push_back(empty ? std::vector<int>()
                          : PathTo(tree, UniformInt(rng, 0, last)));
  }
  return MakePath(batch, nodes);
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_RANDOM_FOREST_H_
