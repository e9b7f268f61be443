// The drafter's proposal for one sequence.
#ifndef BOLE_COMMON_PROPOSAL_TREE_H_
#define BOLE_COMMON_PROPOSAL_TREE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"

namespace bole {

// The parent of a node that continues the committed prefix.
inline constexpr int32_t kNoParent = -1;

// The candidates for one sequence, parents before children.
//
// Node 0, the root, is the pending token: sampled, so certain, but not yet run
// through the target. Nodes are numbered 0 .. T-1; Eq. 2 numbers them 1 .. T,
// and its pi(i) = 0 is kNoParent here.
//
// log_rho[i] is the log, in nats, of the product of draft probabilities on the
// way from the root to node i. It is stored as a sum, so that choosing nodes
// only compares numbers and gives the same result, bit for bit, everywhere.
//
// Invariants, checked by Validate():
//   1. parent, token and log_rho have one length, T >= 1.
//   2. parent[0] == kNoParent, and 0 <= parent[i] < i for every other node.
//   3. token[i] >= 0.
//   4. log_rho[0] == 0, and log_rho[i] <= log_rho[parent[i]]. Not NaN;
//      -inf, for a draft probability of 0, is allowed.
struct ProposalTree {
  std::vector<int32_t> parent;
  std::vector<int32_t> token;
  std::vector<float> log_rho;

  int size() const { return static_cast<int>(parent.size()); }

  friend bool operator==(const ProposalTree&, const ProposalTree&) = default;
};

// How much of one tree is verified, whatever the rest of its batch is like. The
// root counts. 1 <= floor <= cap.
struct TreeBounds {
  int floor = 1;  // The least nodes, if the tree has so many.
  int cap = std::numeric_limits<int>::max();  // The most nodes.

  friend bool operator==(const TreeBounds&, const TreeBounds&) = default;
};

// INVALID_ARGUMENT naming the node and its value where an invariant is broken.
absl::Status Validate(const ProposalTree& tree);

}  // namespace bole

#endif  // BOLE_COMMON_PROPOSAL_TREE_H_
