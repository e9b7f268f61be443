// The part of a tree that can still become output.
#ifndef BOLE_COMMON_TRIM_TREE_H_
#define BOLE_COMMON_TRIM_TREE_H_

#include "common/proposal_tree.h"

namespace bole {

// The tree without nodes deeper than `max_depth`, which cannot be emitted; of
// the others it keeps the `max_nodes` that are likeliest to be reached.
// REQUIRES: max_nodes >= 1, max_depth >= 0.
ProposalTree TrimTree(const ProposalTree& tree, int max_nodes, int max_depth);

// The root, its likeliest child, the likeliest child of that, and so on. Of
// equally likely children it takes the first. COST: O(nodes).
ProposalTree LikeliestChain(const ProposalTree& tree);

}  // namespace bole

#endif  // BOLE_COMMON_TRIM_TREE_H_
