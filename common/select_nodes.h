// Which candidates of a batch are verified this round (Sec. V-A).
#ifndef BOLE_COMMON_SELECT_NODES_H_
#define BOLE_COMMON_SELECT_NODES_H_

#include <compare>
#include <limits>
#include <span>
#include <vector>

#include "common/proposal_tree.h"

namespace bole {

// A node of one tree of a batch.
struct NodeRef {
  int tree;  // Index into the batch.
  int node;  // Index into that tree.

  friend auto operator<=>(const NodeRef&, const NodeRef&) = default;
};

// Selects the root of every tree, since no sequence advances without it; then
// the likeliest nodes of each tree, up to its floor; then the nodes of all
// trees that are most likely to be reached, up to `budget` in all: highest
// log_rho first, ties to the lower (tree, node). No tree gives more than its
// cap. Ordered by (tree, node); fewer than `budget` only if there are no more.
//
// Each tree's share is prefix-connected: a node comes with all its ancestors.
// That needs no repair, because log_rho never grows from parent to child and
// ties go to the smaller node, which is the ancestor.
//
// REQUIRES: Validate() holds for every tree; `bounds` has one entry for each
//     tree, with 1 <= floor <= cap; budget is at least the sum of the floors,
//     each counted up to its tree's size.
// COST: O(n) for n candidates.
std::vector<NodeRef> SelectNodes(std::span<const ProposalTree> trees,
                                 int budget,
                                 std::span<const TreeBounds> bounds);

// The same with one cap for every tree, and no floors.
std::vector<NodeRef> SelectNodes(
    std::span<const ProposalTree> trees, int budget,
    int max_nodes_per_tree = std::numeric_limits<int>::max());

// How many drafts are expected to be accepted in each tree, by the drafter's
// probabilities: the sum of rho over its selected nodes, the root left out.
std::vector<float> PromisedDrafts(std::span<const ProposalTree> trees,
                                  std::span<const NodeRef> selected);

}  // namespace bole

#endif  // BOLE_COMMON_SELECT_NODES_H_
