// A round's plan from the sequences that run.
#ifndef BOLE_SCHEDULER_SERVICE_PLANNER_H_
#define BOLE_SCHEDULER_SERVICE_PLANNER_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/draft_shape.h"
#include "common/step.h"
#include "scheduler_service/budget_policy.h"
#include "scheduler_service/sequence.h"

namespace bole {

struct PlanOptions {
  StepLimits limits;
  std::optional<DraftShape> draft;  // Absent: no speculation.
  int max_nodes_per_tree = 1;       // At most the limits'.
};

// A plan, and whose it is. `prefills` and `sequences` are as in the plan.
struct PlannedRound {
  StepPlan plan;
  std::vector<Sequence*> prefills;
  std::vector<Sequence*> sequences;
  int budget = 0;  // The forest was chosen with it.

  bool empty() const { return prefills.empty() && sequences.empty(); }
};

// Every sequence past its prefill verifies a tree: the nodes are the likeliest
// of the whole batch, as many as the budget says (Sec. V-A), and of each tree
// no more than its sequence has pages for. The others get the next chunk of
// their prefill, oldest first, until the worker's limit on tokens is reached.
// Chunks end on kPrefillGrid, where a cut leaves no trace.
//
// REQUIRES: every sequence holds the pages of its prefill, or of a root
//     (Batch::Grow()).
// COST: O(candidates of the batch).
PlannedRound PlanRound(std::span<const std::unique_ptr<Sequence>> running,
                       const BudgetPolicy& budget, const PlanOptions& options);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_PLANNER_H_
