#include "kernels/reference/select_forest.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"

namespace bole::reference {
namespace {

// The part of request b's tree that may be verified, within its limits on nodes
// and depth. REQUIRES: node_limit[b] >= 1.
ProposalTree UsableTree(const SelectForestParams& p, int b) {
  const int num_candidates = p.shape.num_candidates();
  const size_t first = static_cast<size_t>(b) * num_candidates;
  ProposalTree tree{{kNoParent}, {p.root[b]}, {0.0f}};
  for (size_t c = first; c < first + num_candidates; ++c) {
    tree.parent.push_back(p.trees.parent[c] + 1);
    tree.token.push_back(p.trees.token[c]);
    tree.log_rho.push_back(p.trees.log_rho[c]);
  }
  return TrimTree(tree, p.node_limit[b], p.depth_limit[b]);
}

TreeBounds BoundsOf(const SelectForestParams& p, int b) {
  const int cap = std::min(p.cap[b], p.max_nodes_per_tree);
  return {.floor = std::min(p.floor[b], cap), .cap = cap};
}

// Forest request `r` is request `request[r]` of the batch.
void WriteRows(const SelectForestParams& p, const PackedForest& forest,
               const std::vector<int32_t>& request) {
  const size_t words = p.mask_words;
  for (int i = 0; i < forest.num_nodes(); ++i) {
    const int r = forest.request[i];
    p.request[i] = request[r];
    p.node[i] = i - forest.first_node[r];
    p.parent[i] = forest.parent[i];
    p.depth[i] = forest.depth[i];
    p.token[i] = forest.token[i];
    uint32_t* mask = p.ancestors + i * words;
    std::fill_n(mask, words, 0);
    std::copy_n(forest.ancestors.begin() + i * forest.mask_words,
                std::min<size_t>(words, forest.mask_words), mask);
  }
}

}  // namespace

void SelectForest(const SelectForestParams& p) {
  std::vector<ProposalTree> trees;
  std::vector<TreeBounds> bounds;
  std::vector<int32_t> request;
  for (int b = 0; b < p.max_requests; ++b) {
    if (p.node_limit[b] == 0) continue;
    trees.push_back(UsableTree(p, b));
    bounds.push_back(BoundsOf(p, b));
    request.push_back(b);
  }
  const PackedForest forest =
      PackForest(trees, SelectNodes(trees, *p.budget, bounds)).forest;
  WriteRows(p, forest, request);
  *p.num_rows = forest.num_nodes();
  p.first_row[0] = 0;
  size_t next = 0;
  for (int b = 0; b < p.max_requests; ++b) {
    if (next < request.size() && request[next] == b) ++next;
    p.first_row[b + 1] = forest.first_node[next];
  }
}

}  // namespace bole::reference
