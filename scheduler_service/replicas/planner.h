// Makes a round's plan from the jobs that are placed on a worker.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PLANNER_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PLANNER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/proposal_tree.h"
#include "common/step.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/placement.h"

namespace bole {

struct PlanOptions {
  StepLimits limits;
  RoundBounds bounds;        // The policy's for this worker.
  bool knows_bounds = true;  // The worker knows Lease::bounds.
};

// The circumstances that a plan depends on besides the placements.
struct PlanTime {
  bool others_wait = false;  // Requests wait, or the worker is draining.
  TimePoint now = {};
};

// A plan, and the placements that it is for. `prefills` and `sequences` are as
// in the plan.
struct PlannedRound {
  StepPlan plan;  // With a lease that has no pages yet.
  std::vector<Placement*> prefills;
  std::vector<Placement*> sequences;
  RoundChoice choice;  // With the budget that was used.
  // The trees of the sequences, whose selected nodes are the forest, and for
  // each node of the forest its number in its tree.
  std::vector<ProposalTree> trees;
  std::vector<int32_t> tree_node;

  bool empty() const { return prefills.empty() && sequences.empty(); }
};

// Every job after its prefill verifies a tree: the nodes are the likeliest of
// the whole batch, as many as the policy chooses (Sec. V-A), and of each tree
// no more than its job has pages for and its request allows. A round is lent
// only if the worker can keep to what the requests allow: it supports caps, but
// neither chains within trees nor bounds of depth. The other jobs get the next
// chunk of their prefill, oldest first, until the worker's limit on tokens, or
// the policy's limit for the round, is reached. If the policy wants urgent
// requests first (RoundPolicy::urgent_first()), the oldest job gets the
// smallest possible chunk, and the rest goes to the jobs whose first token is
// due soonest, while it can still be in time. Chunks end on kPrefillGrid, where
// splitting does not change the results.
//
// The tokens of a sequence that the drafter has not seen go with the next plan
// that drafts, or with a plan after which they could be more than the worker
// keeps. After a plan that neither drafts nor defers, the drafter does not
// follow any of the plan's jobs any more (Placement::is_followed()). Nor does
// it follow jobs whose prefill begins if the policy does not want them
// followed. Followed sequences and chunks come first. A round that drafts is
// lent only if all its sequences are followed.
//
// The trees are moved out of the placements.
//
// REQUIRES: every placement holds the pages of its prefill, or of a root
//     (Placements::Grow()).
// COST: O(candidates of the batch).
PlannedRound PlanRound(std::span<const std::unique_ptr<Placement>> placements,
                       RoundPolicy& policy, const PlanOptions& options,
                       const PlanTime& time);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PLANNER_H_
