#include "scheduler_service/replicas/planner.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/draft_shape.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {
namespace {

// Tokens of the next chunk: all that are left if there is room, else up to a
// grid position; 0 if there is no room for that.
int ChunkLength(const Placement& placement, int room) {
  const int left = placement.prefill_left();
  if (left <= room) return left;
  const int end = (placement.committed() + room) / kPrefillGrid * kPrefillGrid;
  return std::max(end - placement.committed(), 0);
}

// What of a tree the request lets be verified.
ProposalTree Bounded(const ProposalTree& tree,
                     const SpeculationOverride& bounds) {
  switch (bounds.mode) {
    case SpeculationMode::kOff:
      return TrimTree(tree, 1, 0);
    case SpeculationMode::kChain:
      return TrimTree(LikeliestChain(tree), bounds.max_nodes, bounds.max_depth);
    case SpeculationMode::kTree:
      break;
  }
  return TrimTree(tree, bounds.max_nodes, bounds.max_depth);
}

// What of its tree a job can use: the context, its pages behind the drafter's
// rows, and the tokens that it may still emit bound it.
ProposalTree UsableTree(const Placement& placement,
                        const PlanOptions& options) {
  const ProposalTree& tree = placement.tree();
  const std::optional<DraftShape>& draft = options.bounds.draft;
  if (!draft) return TrimTree(tree, 1, 0);
  const StepLimits& limits = options.limits;
  const int kv_rows = placement.pages().size() * limits.page_size;
  const int positions =
      std::min(limits.max_context - placement.committed(),
               kv_rows - limits.KvRows(placement.committed(), 0, draft));
  const int max_depth = placement.job().max_new_tokens();
  // No more of it than max_nodes_per_tree is verified.
  const int most = std::min(options.bounds.max_nodes_per_tree, tree.size());
  if (draft->depth <= max_depth && most <= positions) return tree;
  return TrimTree(tree, positions, max_depth);
}

}  // namespace

PlannedRound PlanRound(std::span<const std::unique_ptr<Placement>> placements,
                       const RoundPolicy& policy, const PlanOptions& options,
                       bool others_wait) {
  PlannedRound round;
  std::vector<ProposalTree> trees;
  trees.reserve(placements.size());
  int room = options.limits.max_prefill_tokens;
  int64_t kv_tokens = 0;
  bool may_lend = true;
  for (const std::unique_ptr<Placement>& placement : placements) {
    if (!placement->in_prefill()) {
      kv_tokens += placement->committed();
      round.sequences.push_back(placement.get());
      round.plan.sequences.push_back(placement->Plan());
      trees.push_back(UsableTree(*placement, options));
      if (const auto& bounds = placement->job().request().speculation) {
        trees.back() = Bounded(trees.back(), *bounds);
        may_lend = false;
      }
    } else if (const int length = ChunkLength(*placement, room); length > 0) {
      room -= length;
      round.prefills.push_back(placement.get());
      round.plan.prefills.push_back(placement->Chunk(length));
    }
  }
  if (round.empty()) return round;
  const int num_trees = static_cast<int>(trees.size());
  round.choice = policy.Choose({.num_sequences = num_trees,
                                .kv_tokens = kv_tokens,
                                .trees = trees,
                                .others_wait = others_wait,
                                .prefills = !round.prefills.empty(),
                                .limits = options.limits,
                                .bounds = options.bounds});
  // In a lease the worker chooses the nodes itself, from all candidates.
  if (!may_lend) round.choice.lease_rounds = 1;
  round.plan.draft = round.choice.draft;
  if (trees.empty()) return round;
  round.choice.budget =
      std::clamp(round.choice.budget, num_trees, options.limits.max_nodes);
  round.plan.forest =
      PackForest(trees, SelectNodes(trees, round.choice.budget,
                                    round.choice.max_nodes_per_tree))
          .forest;
  return round;
}

}  // namespace bole
