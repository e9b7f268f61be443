#include "scheduler_service/policy/fixed_policy.h"

#include <algorithm>

#include "common/draft_shape.h"

namespace bole {

RoundBounds FixedPolicy::BoundsFor(const StepLimits& limits,
                                   bool has_drafter) const {
  RoundBounds bounds;
  if (speculation_.mode == SpeculationMode::kOff || !has_drafter) return bounds;
  const DraftShape& most = limits.max_draft;
  DraftShape shape{.top_k = std::min(speculation_.shape.top_k, most.top_k),
                   .depth = std::min(speculation_.shape.depth, most.depth)};
  int nodes = speculation_.nodes;
  if (speculation_.mode == SpeculationMode::kChain) {
    shape.top_k = 1;
    nodes = shape.depth + 1;
  }
  bounds.draft = shape;
  bounds.max_nodes_per_tree = std::min(nodes, limits.max_nodes_per_tree);
  return bounds;
}

RoundChoice FixedPolicy::Choose(const RoundView& view) const {
  const int nodes = view.bounds.max_nodes_per_tree;
  return {
      .budget = nodes * view.num_sequences,
      .max_nodes_per_tree = nodes,
      .draft = view.bounds.draft,
      .lease_rounds = view.others_wait || view.prefills ? 1 : lease_rounds_};
}

}  // namespace bole
