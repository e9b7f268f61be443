#include "common/packed_forest.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace bole {
namespace {

constexpr int kBitsPerWord = 32;

int MaskWords(std::span<const int32_t> first_node) {
  int32_t max_nodes = 0;
  for (size_t b = 0; b + 1 < first_node.size(); ++b) {
    max_nodes = std::max(max_nodes, first_node[b + 1] - first_node[b]);
  }
  return (max_nodes + kBitsPerWord - 1) / kBitsPerWord;
}

// Fills mask_words, depth, request and ancestors.
// REQUIRES: first_node is ascending from 0 to N, and parents are earlier nodes.
void Derive(PackedForest& forest) {
  const size_t num_nodes = forest.parent.size();
  const size_t words = MaskWords(forest.first_node);
  forest.mask_words = static_cast<int>(words);
  forest.depth.assign(num_nodes, 0);
  forest.request.assign(num_nodes, 0);
  forest.ancestors.assign(num_nodes * words, 0);
  for (int b = 0; b < forest.num_requests(); ++b) {
    const int32_t first = forest.first_node[b];
    for (int32_t i = first; i < forest.first_node[b + 1]; ++i) {
      uint32_t* mask = &forest.ancestors[i * words];
      if (forest.parent[i] != kNoParent) {
        const int32_t parent = first + forest.parent[i];
        forest.depth[i] = forest.depth[parent] + 1;
        std::copy_n(&forest.ancestors[parent * words], words, mask);
      }
      const int32_t node = i - first;
      mask[node / kBitsPerWord] |= uint32_t{1} << (node % kBitsPerWord);
      forest.request[i] = b;
    }
  }
}

absl::Status ValidateParents(std::span<const int32_t> parent, int request) {
  for (int i = 0; i < std::ssize(parent); ++i) {
    if (parent[i] < kNoParent || parent[i] >= i) {
      return absl::InvalidArgumentError(absl::StrCat(
          "forest: request ", request, ": node ", i, " has parent ", parent[i],
          ", which is not an earlier node"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateRequest(const PackedForest& forest, int b,
                             const ForestLimits& limits) {
  const int32_t first = forest.first_node[b];
  const int32_t num_nodes = forest.first_node[b + 1] - first;
  if (num_nodes > limits.max_nodes_per_request) {
    return absl::InvalidArgumentError(
        absl::StrCat("forest: request ", b, " has ", num_nodes,
                     " nodes; the limit is ", limits.max_nodes_per_request));
  }
  const std::span parent = std::span(forest.parent).subspan(first, num_nodes);
  const std::span token = std::span(forest.token).subspan(first, num_nodes);
  BOLE_RETURN_IF_ERROR(ValidateParents(parent, b));
  std::vector<std::pair<int32_t, int32_t>> children;
  for (int i = 0; i < num_nodes; ++i) {
    if (token[i] < 0 || token[i] >= limits.vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat("forest: request ", b, ": node ", i, " has token ",
                       token[i], " of a vocabulary of ", limits.vocabulary));
    }
    if (parent[i] != kNoParent) children.emplace_back(parent[i], token[i]);
  }
  std::sort(children.begin(), children.end());
  const auto twin = std::adjacent_find(children.begin(), children.end());
  if (twin != children.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("forest: request ", b, ": two children of node ",
                     twin->first, " carry token ", twin->second));
  }
  return absl::OkStatus();
}

// What has to hold before the arrays may be indexed.
absl::Status ValidateCounts(const PackedForest& forest,
                            const ForestLimits& limits) {
  const std::span<const int32_t> first = forest.first_node;
  if (first.empty() || first.front() != 0 ||
      !std::is_sorted(first.begin(), first.end()) ||
      first.back() != forest.num_nodes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "forest: first_node does not ascend from 0 to the number of nodes, ",
        forest.num_nodes()));
  }
  if (forest.num_requests() > limits.max_requests) {
    return absl::InvalidArgumentError(
        absl::StrCat("forest: ", forest.num_requests(),
                     " requests; the limit is ", limits.max_requests));
  }
  if (forest.num_nodes() > limits.max_nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("forest: ", forest.num_nodes(), " nodes; the limit is ",
                     limits.max_nodes));
  }
  if (forest.token.size() != forest.parent.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("forest: ", forest.token.size(), " tokens for ",
                     forest.num_nodes(), " nodes"));
  }
  return absl::OkStatus();
}

// depth, request and ancestors are what the parents say.
absl::Status ValidateDerived(const PackedForest& forest) {
  PackedForest want;
  want.first_node = forest.first_node;
  want.parent = forest.parent;
  Derive(want);
  const auto error = [](const char* array) {
    return absl::InvalidArgumentError(
        absl::StrCat("forest: ", array, " does not agree with the parents"));
  };
  if (forest.depth != want.depth) return error("depth");
  if (forest.request != want.request) return error("request");
  if (forest.mask_words != want.mask_words) return error("mask_words");
  if (forest.ancestors != want.ancestors) return error("ancestors");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackedForest> BuildForest(std::span<const NodeList> requests) {
  PackedForest forest;
  for (int b = 0; b < std::ssize(requests); ++b) {
    const NodeList& list = requests[b];
    if (list.token.size() != list.parent.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("forest: request ", b, " has ", list.token.size(),
                       " tokens and ", list.parent.size(), " parents"));
    }
    BOLE_RETURN_IF_ERROR(ValidateParents(list.parent, b));
    forest.parent.insert(forest.parent.end(), list.parent.begin(),
                         list.parent.end());
    forest.token.insert(forest.token.end(), list.token.begin(),
                        list.token.end());
    forest.first_node.push_back(forest.num_nodes());
  }
  Derive(forest);
  return forest;
}

PackedTrees PackForest(std::span<const ProposalTree> trees,
                       std::span<const NodeRef> selected) {
  BOLE_CHECK(std::is_sorted(selected.begin(), selected.end()));
  PackedTrees packed;
  PackedForest& forest = packed.forest;
  auto next = selected.begin();
  for (int t = 0; t < std::ssize(trees); ++t) {
    const ProposalTree& tree = trees[t];
    // The number that each node of the tree got; kNoParent for those left out.
    std::vector<int32_t> number(tree.size(), kNoParent);
    for (int32_t n = 0; next != selected.end() && next->tree == t; ++next) {
      const int node = next->node;
      BOLE_CHECK(node >= 0 && node < tree.size() && number[node] == kNoParent);
      number[node] = n++;
      const int32_t parent = tree.parent[node];
      BOLE_CHECK(parent == kNoParent || number[parent] != kNoParent);
      forest.parent.push_back(parent == kNoParent ? kNoParent : number[parent]);
      forest.token.push_back(tree.token[node]);
      packed.tree_node.push_back(node);
    }
    forest.first_node.push_back(forest.num_nodes());
  }
  BOLE_CHECK(next == selected.end());
  Derive(forest);
  return packed;
}

absl::Status Validate(const PackedForest& forest, const ForestLimits& limits) {
  BOLE_RETURN_IF_ERROR(ValidateCounts(forest, limits));
  for (int b = 0; b < forest.num_requests(); ++b) {
    BOLE_RETURN_IF_ERROR(ValidateRequest(forest, b, limits));
  }
  return ValidateDerived(forest);
}

}  // namespace bole
