#include "common/proposal_tree.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// Invariants 2 to 4, but for those of the root, without a branch for each node:
// a scheduler looks at every candidate of every round.
bool HasValidNodes(const ProposalTree& tree) {
  const int num_nodes = tree.size();
  bool valid = tree.token[0] >= 0;
  for (int i = 1; i < num_nodes; ++i) {
    const auto parent = static_cast<uint32_t>(tree.parent[i]);
    valid &= parent < static_cast<uint32_t>(i);
    valid &= tree.token[i] >= 0;
  }
  if (!valid) return false;
  for (int i = 1; i < num_nodes; ++i) {
    valid &= tree.log_rho[i] <= tree.log_rho[tree.parent[i]];  // Not if NaN.
  }
  return valid;
}

absl::Status ValidateNode(const ProposalTree& tree, int i) {
  const int32_t parent = tree.parent[i];
  if (parent < 0 || parent >= i) {
    return absl::InvalidArgumentError(
        absl::StrCat("tree: node ", i, " has parent ", parent,
                     ", which is not an earlier node"));
  }
  // Written so that NaN is refused.
  if (!(tree.log_rho[i] <= tree.log_rho[parent])) {
    return absl::InvalidArgumentError(
        absl::StrCat("tree: node ", i, " has log_rho ", tree.log_rho[i],
                     ", its parent ", parent, " has ", tree.log_rho[parent]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const ProposalTree& tree) {
  const size_t num_nodes = tree.parent.size();
  if (tree.token.size() != num_nodes || tree.log_rho.size() != num_nodes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tree: arrays differ in length: parent ", num_nodes, ", token ",
        tree.token.size(), ", log_rho ", tree.log_rho.size()));
  }
  if (num_nodes == 0) return absl::InvalidArgumentError("tree: no root");
  if (tree.parent[0] != kNoParent) {
    return absl::InvalidArgumentError(
        absl::StrCat("tree: the root has parent ", tree.parent[0]));
  }
  if (tree.log_rho[0] != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tree: the root has log_rho ", tree.log_rho[0]));
  }
  if (HasValidNodes(tree)) return absl::OkStatus();
  for (int i = 0; i < tree.size(); ++i) {
    if (tree.token[i] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tree: node ", i, " has token ", tree.token[i]));
    }
    if (i > 0) BOLE_RETURN_IF_ERROR(ValidateNode(tree, i));
  }
  return absl::OkStatus();
}

}  // namespace bole
