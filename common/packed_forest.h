// The nodes that a batch verifies, flat and ragged (Sec. V-B).
#ifndef BOLE_COMMON_PACKED_FOREST_H_
#define BOLE_COMMON_PACKED_FOREST_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"

namespace bole {

// N nodes of B requests, request b owning nodes first_node[b] ..
// first_node[b+1] of the flat arrays (half-open). Within a request nodes are
// numbered from 0, parents before children.
//
// depth, request and ancestors follow from first_node and parent; they are kept
// because every layer reads them. BuildForest() and PackForest() make forests
// that Validate() accepts; one that came from elsewhere has to be validated.
struct PackedForest {
  std::vector<int32_t> first_node = {0};  // [B + 1] (indptr, cu_seqlens)
  std::vector<int32_t> parent;   // [N] number within the request, or kNoParent.
  std::vector<int32_t> token;    // [N]
  std::vector<int32_t> depth;    // [N] 0 without a parent, else parent's + 1.
  std::vector<int32_t> request;  // [N]
  // W = ceil(nodes of the largest request / 32).
  int mask_words = 0;
  // [N, W] bit j (word j / 32, bit j % 32): node j of the same request is an
  // ancestor or the node itself.
  std::vector<uint32_t> ancestors;

  int num_requests() const { return static_cast<int>(first_node.size()) - 1; }
  int num_nodes() const { return static_cast<int>(parent.size()); }

  friend bool operator==(const PackedForest&, const PackedForest&) = default;
};

// One request's nodes. Several may have no parent.
struct NodeList {
  std::vector<int32_t> token;   // [T]
  std::vector<int32_t> parent;  // [T] an earlier node, or kNoParent.
};

// One request for each list; an empty list is a request without nodes.
// INVALID_ARGUMENT: the arrays of a list differ in length, or a parent is not
// an earlier node. Tokens are not looked at. COST: O(N * W).
absl::StatusOr<PackedForest> BuildForest(std::span<const NodeList> requests);

struct PackedTrees {
  PackedForest forest;             // Request b is trees[b].
  std::vector<int32_t> tree_node;  // [N] the node of the tree.
};

// The selected nodes of the trees, in their order.
// REQUIRES: `selected` as SelectNodes() returns it: ordered, and with every
// node
//     all its ancestors. The process stops otherwise.
// COST: O(N * W + nodes of the trees).
PackedTrees PackForest(std::span<const ProposalTree> trees,
                       std::span<const NodeRef> selected);

struct ForestLimits {
  int max_requests;           // B
  int max_nodes;              // N
  int max_nodes_per_request;  // T
  int vocabulary;             // Tokens are 0 .. vocabulary - 1.
};

// INVALID_ARGUMENT, naming the node and its value, unless the forest is within
// the limits, its arrays have the stated lengths and ranges, depth, request and
// ancestors agree with the parents, and no two children of a node carry the
// same token: a walk that looks for a token must find one child. (Nodes without
// a parent are not looked for and may share a token.)
// COST: O(N * W + N log N).
absl::Status Validate(const PackedForest& forest, const ForestLimits& limits);

}  // namespace bole

#endif  // BOLE_COMMON_PACKED_FOREST_H_
