// A round's plan from the jobs that are placed on a worker.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PLANNER_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PLANNER_H_

#include <memory>
#include <span>
#include <vector>

#include "common/step.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/placement.h"

namespace bole {

struct PlanOptions {
  StepLimits limits;
  RoundBounds bounds;  // The policy's for this worker.
};

// A plan, and whose it is. `prefills` and `sequences` are as in the plan.
struct PlannedRound {
  StepPlan plan;  // Without a lease.
  std::vector<Placement*> prefills;
  std::vector<Placement*> sequences;
  RoundChoice choice;  // The budget as it was used.

  bool empty() const { return prefills.empty() && sequences.empty(); }
};

// Every job past its prefill verifies a tree: the nodes are the likeliest of
// the whole batch, as many as the policy chooses (Sec. V-A), and of each tree
// no more than its job has pages for and its request allows (a round with such
// a request is not lent). The others get the next chunk of their
// prefill, oldest first, until the worker's limit on tokens is reached. Chunks
// end on kPrefillGrid, where a cut leaves no trace.
//
// REQUIRES: every placement holds the pages of its prefill, or of a root
//     (Placements::Grow()).
// COST: O(candidates of the batch).
PlannedRound PlanRound(std::span<const std::unique_ptr<Placement>> placements,
                       const RoundPolicy& policy, const PlanOptions& options,
                       bool others_wait);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PLANNER_H_
