#include "scheduler_service/policy/fixed_policy.h"

#include <algorithm>

#include "common/draft_shape.h"

namespace bole {

RoundBounds BoundsFor(const Speculation& speculation, const StepLimits& limits,
                      bool has_drafter) {
  RoundBounds bounds;
  if (speculation.mode == SpeculationMode::kOff || !has_drafter) return bounds;
  const DraftShape& most = limits.max_draft;
  DraftShape shape{.top_k = std::min(speculation.shape.top_k, most.top_k),
                   .depth = std::min(speculation.shape.depth, most.depth)};
  int nodes = speculation.nodes;
  if (speculation.mode == SpeculationMode::kChain) {
    shape.top_k = 1;
    nodes = shape.depth + 1;
  }
  bounds.draft = shape;
  bounds.max_nodes_per_tree = std::min(nodes, limits.max_nodes_per_tree);
  return bounds;
}

RoundChoice FixedPolicy::Choose(const RoundView& view) {
  const int budget =
      bounds_.max_nodes_per_tree * static_cast<int>(view.trees.size());
  const bool lends = !view.others_wait && view.prefill_tokens == 0;
  return {.budget = budget,
          .draft = bounds_.draft,
          .off_reason = bounds_.draft ? OffReason::kNone : if_off_,
          .lease_rounds = lends ? lease_rounds_ : 1,
          .lease_budget = budget};
}

}  // namespace bole
