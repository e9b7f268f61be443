#include "scheduler_service/replicas/validate_result.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/draft_shape.h"
#include "common/field_error.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/status_macros.h"
#include "scheduler_service/replicas/answer_checks.h"
#include "scheduler_service/replicas/validate_chunk.h"

namespace bole {
namespace {

bool IsStop(const SequencePlan& plan, int32_t token) {
  const std::vector<int32_t>& stops = plan.stop_tokens;
  return std::find(stops.begin(), stops.end(), token) != stops.end();
}

absl::Status CheckToken(const Answer& answer, const EmittedToken& token,
                        int vocabulary) {
  BOLE_RETURN_IF_ERROR(
      CheckRange(answer, "an emitted token", token.token, 0, vocabulary - 1));
  const SamplingParams& sampling = answer.plan.sampling;
  if (sampling.logprobs) {
    return CheckLogprobs(answer, token, sampling.top_logprobs, vocabulary);
  }
  return CheckEqual(answer, "the number of top log-probabilities",
                    std::ssize(token.top), 0);
}

// Checks each token, and that none follows a stop token.
absl::Status CheckTokens(const Answer& answer, int vocabulary) {
  const std::vector<EmittedToken>& emitted = answer.result.emitted;
  for (size_t i = 0; i < emitted.size(); ++i) {
    BOLE_RETURN_IF_ERROR(CheckToken(answer, emitted[i], vocabulary));
    if (i + 1 == emitted.size() || !IsStop(answer.plan, emitted[i].token)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(answer.who, ": a token was emitted after stop token ",
                     emitted[i].token));
  }
  return absl::OkStatus();
}

// Depth of the deepest node. REQUIRES: Validate(tree).
int DepthOf(const ProposalTree& tree) {
  std::vector<int> depth(tree.size(), 0);
  int deepest = 0;
  for (int i = 1; i < tree.size(); ++i) {
    depth[i] = depth[tree.parent[i]] + 1;
    deepest = std::max(deepest, depth[i]);
  }
  return deepest;
}

int32_t LargestToken(const ProposalTree& tree) {
  int32_t largest = 0;
  for (const int32_t token : tree.token) largest = std::max(largest, token);
  return largest;
}

// Whether one of the siblings directly before node `i` carries the same token.
bool HasTwinBeside(const ProposalTree& tree, int i) {
  for (int j = i - 1; j > 0 && tree.parent[j] == tree.parent[i]; --j) {
    if (tree.token[j] == tree.token[i]) return true;
  }
  return false;
}

// A node that carries the token of another child of its parent, if there is
// one. REQUIRES: Validate(tree). COST: O(nodes * children) if the children of
// every node are adjacent, as drafters write them; else O(n log n).
std::optional<int> FindTwin(const ProposalTree& tree) {
  std::vector<bool> has_children(tree.size());
  bool together = true;
  for (int i = 1; together && i < tree.size(); ++i) {
    if (HasTwinBeside(tree, i)) return i;
    const int32_t parent = tree.parent[i];
    if (parent == tree.parent[i - 1]) continue;
    together = !has_children[parent];
    has_children[parent] = true;
  }
  if (together) return std::nullopt;
  std::vector<std::tuple<int32_t, int32_t, int>> nodes;
  nodes.reserve(tree.size());
  for (int i = 1; i < tree.size(); ++i) {
    nodes.emplace_back(tree.parent[i], tree.token[i], i);
  }
  std::sort(nodes.begin(), nodes.end());
  for (size_t i = 1; i < nodes.size(); ++i) {
    const auto& [parent, token, node] = nodes[i];
    const auto& [parent_before, token_before, node_before] = nodes[i - 1];
    if (parent == parent_before && token == token_before) return node;
  }
  return std::nullopt;
}

// No two children of a node may have the same token: a plan could not hold
// them.
absl::Status CheckSiblings(const Answer& answer, const ProposalTree& tree) {
  const std::optional<int> twin = FindTwin(tree);
  if (!twin) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(answer.who, ": proposal: two children of node ",
                   tree.parent[*twin], " carry token ", tree.token[*twin]));
}

// `draft` is absent if no proposal is allowed. None is allowed either if the
// sequence skips the drafter.
absl::Status CheckProposal(const Answer& answer,
                           const std::optional<DraftShape>& draft,
                           int vocabulary) {
  if (!answer.result.proposal) return absl::OkStatus();
  const ProposalTree& tree = *answer.result.proposal;
  if (!draft || answer.plan.skips_drafter || answer.result.emitted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(answer.who, ": a proposal of ", tree.size(),
                     " nodes, where none was requested"));
  }
  if (const absl::Status valid = Validate(tree); !valid.ok()) {
    return InField(absl::StrCat(answer.who, ": proposal"), valid);
  }
  BOLE_RETURN_IF_ERROR(CheckRange(answer, "the proposal's number of nodes",
                                  tree.size(), 1, 1 + draft->num_candidates()));
  BOLE_RETURN_IF_ERROR(CheckRange(answer, "the proposal's depth", DepthOf(tree),
                                  0, draft->depth));
  BOLE_RETURN_IF_ERROR(CheckRange(answer, "a proposed token",
                                  LargestToken(tree), 0, vocabulary - 1));
  BOLE_RETURN_IF_ERROR(CheckSiblings(answer, tree));
  return CheckEqual(answer, "the proposal's root", tree.token[0],
                    answer.result.emitted.back().token);
}

// The node of a request that continues `node` with `token`, or kNoParent.
int FindChild(const PackedForest& forest, int request, int node,
              int32_t token) {
  const int first = forest.first_node[request];
  const int num_nodes = forest.first_node[request + 1] - first;
  for (int i = node + 1; i < num_nodes; ++i) {
    if (forest.parent[first + i] == node && forest.token[first + i] == token) {
      return i;
    }
  }
  return kNoParent;
}

// Checks that the emitted tokens are a walk through the request's tree.
absl::Status CheckWalk(const Answer& answer, const PackedForest& forest,
                       int request) {
  const std::vector<EmittedToken>& emitted = answer.result.emitted;
  const bool failed = answer.result.bad_logits_position.has_value();
  int node = 0;
  int accepted = 0;
  for (size_t i = 0; i < emitted.size(); ++i) {
    const bool is_last = i + 1 == emitted.size();
    node = FindChild(forest, request, node, emitted[i].token);
    if (node != kNoParent) {
      ++accepted;
    } else if (!is_last || failed) {
      return absl::InvalidArgumentError(absl::StrCat(
          answer.who, ": ", emitted.size(),
          " emitted tokens, of which the tree ends after ", i + 1));
    }
  }
  const bool ended = failed ||
                     std::ssize(emitted) == answer.plan.max_new_tokens ||
                     IsStop(answer.plan, emitted.back().token);
  if (node != kNoParent && !ended) {
    return absl::InvalidArgumentError(absl::StrCat(
        answer.who, ": the tree goes on after the last emitted token, ",
        emitted.back().token, ", which is neither a stop token nor the last of",
        " max_new_tokens = ", answer.plan.max_new_tokens));
  }
  return CheckEqual(answer, "accepted_drafts", answer.result.accepted_drafts,
                    accepted);
}

absl::Status CheckSequence(const Answer& answer, const PackedForest& forest,
                           int request) {
  const int num_nodes =
      forest.first_node[request + 1] - forest.first_node[request];
  const int64_t num_emitted = std::ssize(answer.result.emitted);
  const bool failed = answer.result.bad_logits_position.has_value();
  if (num_nodes == 0) {
    if (failed) {
      return absl::InvalidArgumentError(absl::StrCat(
          answer.who, ": bad_logits_position is ",
          *answer.result.bad_logits_position, " of a sequence without nodes"));
    }
    BOLE_RETURN_IF_ERROR(
        CheckEqual(answer, "the number of emitted tokens", num_emitted, 0));
    BOLE_RETURN_IF_ERROR(CheckEqual(answer, "accepted_drafts",
                                    answer.result.accepted_drafts, 0));
  } else {
    BOLE_RETURN_IF_ERROR(CheckRange(answer, "the number of emitted tokens",
                                    num_emitted, failed ? 0 : 1,
                                    answer.plan.max_new_tokens));
    BOLE_RETURN_IF_ERROR(CheckWalk(answer, forest, request));
    if (failed) {
      BOLE_RETURN_IF_ERROR(
          CheckFailure(answer, int64_t{answer.result.committed}));
    }
  }
  return CheckEqual(answer, "committed", answer.result.committed,
                    answer.plan.committed + num_emitted);
}

// Checks the drafts that were promised for nodes that the worker chose: at most
// one for each.
absl::Status CheckPromised(const AwaitedRound& awaited, const Answer& answer,
                           int num_nodes) {
  const std::optional<float>& promised = answer.result.promised_drafts;
  if (!promised) return absl::OkStatus();
  const bool chosen = awaited.round > 0 && awaited.plan.draft.has_value();
  const int most = chosen ? std::max(num_nodes - 1, 0) : 0;
  if (*promised >= 0 && *promised <= static_cast<float>(most)) {
    return absl::OkStatus();
  }
  return BadField(absl::StrCat(answer.who, ": promised_drafts"), *promised,
                  absl::StrCat("[0, ", most, "]"));
}

absl::Status CheckChosenTree(const AwaitedRound& awaited,
                             const StepLimits& limits,
                             const PackedForest& chosen, int request) {
  const PackedForest& roots = awaited.plan.forest;
  const std::string who = absl::StrCat("forest: request ", request);
  const int first = chosen.first_node[request];
  const int num_nodes = chosen.first_node[request + 1] - first;
  const int root = roots.first_node[request];
  const bool runs = roots.first_node[request + 1] > root;
  if (!runs || num_nodes == 0) {
    return CheckEqual(absl::StrCat(who, ": the number of nodes"), num_nodes,
                      runs ? 1 : 0);
  }
  BOLE_RETURN_IF_ERROR(CheckEqual(absl::StrCat(who, ": the root"),
                                  chosen.token[first], roots.token[root]));
  for (int i = 1; i < num_nodes; ++i) {
    if (chosen.parent[first + i] != kNoParent) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": node ", i, " is a second root"));
  }
  const std::vector<TreeBounds>& bounds = awaited.plan.lease->bounds;
  if (!bounds.empty() && num_nodes > bounds[request].cap) {
    return BadField(absl::StrCat(who, ": the number of nodes"), num_nodes,
                    absl::StrCat("[1, ", bounds[request].cap, "]"));
  }
  const int committed = awaited.plan.sequences[request].committed;
  if (committed + num_nodes <= limits.max_context) return absl::OkStatus();
  return BadField(absl::StrCat(who, ": committed + nodes"),
                  committed + num_nodes,
                  absl::StrCat("[0, ", limits.max_context, "]"));
}

// Checks the forest that a worker chose for a later round of a lease.
absl::Status CheckChosenForest(const AwaitedRound& awaited,
                               const StepLimits& limits,
                               const PackedForest& chosen) {
  const StepPlan& plan = awaited.plan;
  const int num_sequences = static_cast<int>(plan.sequences.size());
  BOLE_RETURN_IF_ERROR(Validate(
      chosen,
      {.max_requests = num_sequences,
       .max_nodes = plan.lease->budget,
       .max_nodes_per_request = plan.draft ? plan.lease->max_nodes_per_tree : 1,
       .vocabulary = limits.vocabulary}));
  BOLE_RETURN_IF_ERROR(CheckEqual("forest: the number of requests",
                                  chosen.num_requests(), num_sequences));
  for (int b = 0; b < num_sequences; ++b) {
    BOLE_RETURN_IF_ERROR(CheckChosenTree(awaited, limits, chosen, b));
  }
  return absl::OkStatus();
}

// Checks everything that does not belong to one sequence.
absl::Status CheckRound(const AwaitedRound& awaited, const StepLimits& limits,
                        const StepResult& result) {
  const StepPlan& plan = awaited.plan;
  BOLE_RETURN_IF_ERROR(CheckEqual("round", result.round, awaited.round));
  const int num_rounds = plan.lease ? plan.lease->rounds : 1;
  if (!result.is_last && result.round + 1 >= num_rounds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a round follows round ", result.round, ", of ", num_rounds));
  }
  BOLE_RETURN_IF_ERROR(CheckEqual("the number of prefills",
                                  std::ssize(result.prefills),
                                  std::ssize(plan.prefills)));
  BOLE_RETURN_IF_ERROR(CheckEqual("the number of sequences",
                                  std::ssize(result.sequences),
                                  std::ssize(plan.sequences)));
  BOLE_RETURN_IF_ERROR(CheckEqual("the number of forests",
                                  result.forest ? 1 : 0,
                                  awaited.round > 0 ? 1 : 0));
  if (!result.forest) return absl::OkStatus();
  return CheckChosenForest(awaited, limits, *result.forest);
}

}  // namespace

absl::Status ValidateResult(const AwaitedRound& awaited,
                            const StepLimits& limits,
                            const StepResult& result) {
  BOLE_RETURN_IF_ERROR(CheckRound(awaited, limits, result));
  const StepPlan& plan = awaited.plan;
  const std::optional<DraftShape> draft =
      result.is_last ? plan.draft : std::nullopt;
  for (size_t i = 0; i < plan.prefills.size(); ++i) {
    const Answer answer{.who = absl::StrCat("prefill ", i),
                        .plan = plan.prefills[i].sequence,
                        .result = result.prefills[i]};
    BOLE_RETURN_IF_ERROR(
        CheckChunk(answer, plan.prefills[i], limits.vocabulary));
    BOLE_RETURN_IF_ERROR(CheckTokens(answer, limits.vocabulary));
    BOLE_RETURN_IF_ERROR(CheckProposal(answer, draft, limits.vocabulary));
  }
  const PackedForest& forest = result.forest ? *result.forest : plan.forest;
  for (int b = 0; b < std::ssize(plan.sequences); ++b) {
    const Answer answer{.who = absl::StrCat("sequence ", b),
                        .plan = plan.sequences[b],
                        .result = result.sequences[b]};
    BOLE_RETURN_IF_ERROR(CheckSequence(answer, forest, b));
    BOLE_RETURN_IF_ERROR(CheckPromised(
        awaited, answer, forest.first_node[b + 1] - forest.first_node[b]));
    BOLE_RETURN_IF_ERROR(
        CheckEqual(answer, "the number of prompt log-probabilities",
                   std::ssize(answer.result.prompt_logprobs), 0));
    BOLE_RETURN_IF_ERROR(CheckTokens(answer, limits.vocabulary));
    BOLE_RETURN_IF_ERROR(CheckProposal(answer, draft, limits.vocabulary));
  }
  return absl::OkStatus();
}

void AdvanceRound(const StepLimits& limits, const StepResult& result,
                  AwaitedRound& awaited) {
  ++awaited.round;
  std::vector<SequencePlan>& sequences = awaited.plan.sequences;
  std::vector<NodeList> roots(sequences.size());
  for (size_t b = 0; b < sequences.size(); ++b) {
    SequencePlan& sequence = sequences[b];
    const std::vector<EmittedToken>& emitted = result.sequences[b].emitted;
    sequence.committed = result.sequences[b].committed;
    sequence.draft_tail.clear();  // It was shown in the first round.
    sequence.max_new_tokens -= static_cast<int>(emitted.size());
    const bool runs = !emitted.empty() &&
                      !result.sequences[b].bad_logits_position &&
                      sequence.max_new_tokens > 0 &&
                      sequence.committed < limits.max_context &&
                      !IsStop(sequence, emitted.back().token);
    if (!runs) continue;
    roots[b] = {.token = {emitted.back().token}, .parent = {kNoParent}};
  }
  absl::StatusOr<PackedForest> forest = BuildForest(roots);
  BOLE_CHECK(forest.ok());
  awaited.plan.forest = *std::move(forest);
}

}  // namespace bole
