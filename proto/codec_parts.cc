#include "proto/codec_parts.h"

namespace bole::codec {

namespace wire = worker::v1;

absl::Status Error(const std::string& who, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(who, ": ", what));
}

absl::Status CheckAtMost(const std::string& who, const char* what,
                         int64_t count, int64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return Error(who, absl::StrCat(count, " ", what, "; the limit is ", limit));
}

absl::Status CheckSameLength(const std::string& who, const char* a, int size_a,
                             const char* b, int size_b) {
  if (size_a == size_b) return absl::OkStatus();
  return Error(
      who, absl::StrCat(a, " has ", size_a, " values, ", b, " has ", size_b));
}

absl::Status CheckInRange(const std::string& who, const char* field,
                          int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Error(who, absl::StrCat(field, " is ", value, ", not in [", low, ", ",
                                 high, "]"));
}

namespace {

// first_node ascends from 0 to N in steps that a tree may have.
absl::Status CheckFirstNodes(const wire::Forest& message) {
  const int num_nodes = message.parent_size();
  BOLE_RETURN_IF_ERROR(CheckAtMost("forest", "first nodes",
                                   message.first_node_size(),
                                   kMaxCodedSequences + 1));
  int32_t end = 0;
  for (int b = 0; b < message.first_node_size(); ++b) {
    const int32_t first = message.first_node(b);
    if (first < end || first > num_nodes || (b == 0 && first != 0)) {
      return Error("forest",
                   absl::StrCat("first_node[", b, "] is ", first, " after ",
                                end, " and with ", num_nodes, " nodes"));
    }
    BOLE_RETURN_IF_ERROR(CheckAtMost(absl::StrCat("forest: request ", b - 1),
                                     "nodes", first - end, kMaxCodedTreeNodes));
    end = first;
  }
  if (end == num_nodes) return absl::OkStatus();
  return Error("forest", absl::StrCat("first_node ends at ", end, " with ",
                                      num_nodes, " nodes"));
}

}  // namespace

void EncodeForest(const PackedForest& forest, wire::Forest& message) {
  if (forest.num_requests() == 0) return;
  EncodeArray(forest.first_node, message.mutable_first_node());
  EncodeArray(forest.parent, message.mutable_parent());
  EncodeArray(forest.token, message.mutable_token());
}

absl::StatusOr<PackedForest> DecodeForest(const wire::Forest& message) {
  BOLE_RETURN_IF_ERROR(CheckSameLength("forest", "parent",
                                       message.parent_size(), "token",
                                       message.token_size()));
  BOLE_RETURN_IF_ERROR(CheckFirstNodes(message));
  std::vector<NodeList> requests;
  requests.reserve(message.first_node_size());
  for (int b = 0; b + 1 < message.first_node_size(); ++b) {
    const int32_t first = message.first_node(b);
    const int32_t end = message.first_node(b + 1);
    requests.push_back({.token = {message.token().begin() + first,
                                  message.token().begin() + end},
                        .parent = {message.parent().begin() + first,
                                   message.parent().begin() + end}});
  }
  return BuildForest(requests);
}

}  // namespace bole::codec
