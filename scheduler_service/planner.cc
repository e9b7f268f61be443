#include "scheduler_service/planner.h"

#include <algorithm>
#include <utility>

#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"

namespace bole {
namespace {

// Tokens of the next chunk: all that are left if there is room, else up to a
// grid position; 0 if there is no room for that.
int ChunkLength(const Sequence& sequence, int room) {
  const int left = sequence.prefill_target() - sequence.committed();
  if (left <= room) return left;
  const int end = (sequence.committed() + room) / kPrefillGrid * kPrefillGrid;
  return std::max(end - sequence.committed(), 0);
}

// What of its tree a sequence can use: the context, its pages behind the
// drafter's rows, and the tokens that it may still emit bound it.
ProposalTree UsableTree(const Sequence& sequence, const PlanOptions& options) {
  const StepLimits& limits = options.limits;
  const int kv_rows =
      static_cast<int>(sequence.pages.size()) * limits.page_size;
  const int positions =
      std::min(limits.max_context - sequence.committed(),
               kv_rows - limits.KvRows(sequence.committed(), 0, options.draft));
  const int max_depth = sequence.max_new_tokens();
  const ProposalTree& tree = sequence.tree();
  const bool deep = options.draft && options.draft->depth > max_depth;
  if (!options.draft) return TrimTree(tree, 1, 0);
  if (!deep && tree.size() <= positions) return tree;
  return TrimTree(tree, positions, max_depth);
}

}  // namespace

PlannedRound PlanRound(std::span<const std::unique_ptr<Sequence>> running,
                       const BudgetPolicy& budget, const PlanOptions& options) {
  PlannedRound round;
  round.plan.draft = options.draft;
  std::vector<ProposalTree> trees;
  trees.reserve(running.size());
  int room = options.limits.max_prefill_tokens;
  BatchShape shape{.num_sequences = 0, .kv_tokens = 0};
  for (const std::unique_ptr<Sequence>& sequence : running) {
    if (!sequence->in_prefill()) {
      ++shape.num_sequences;
      shape.kv_tokens += sequence->committed();
      round.sequences.push_back(sequence.get());
      round.plan.sequences.push_back(sequence->Plan());
      trees.push_back(UsableTree(*sequence, options));
    } else if (const int length = ChunkLength(*sequence, room); length > 0) {
      room -= length;
      round.prefills.push_back(sequence.get());
      round.plan.prefills.push_back(sequence->Chunk(length));
    }
  }
  if (!trees.empty()) {
    round.budget = std::clamp(budget.NodesFor(shape), shape.num_sequences,
                              options.limits.max_nodes);
    round.plan.forest =
        PackForest(trees,
                   SelectNodes(trees, round.budget, options.max_nodes_per_tree))
            .forest;
  }
  return round;
}

}  // namespace bole
