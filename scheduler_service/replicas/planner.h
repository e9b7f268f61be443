// A round's plan from the jobs that are placed on a worker.
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

// What a plan depends on besides the placements.
struct PlanTime {
  bool others_wait = false;  // Requests wait, or the worker is to leave.
  TimePoint now = {};
};

// A plan, and whose it is. `prefills` and `sequences` are as in the plan.
struct PlannedRound {
  StepPlan plan;  // With a lease that has no pages yet.
  std::vector<Placement*> prefills;
  std::vector<Placement*> sequences;
  RoundChoice choice;  // The budget as it was used.
  // The trees of the sequences, of which the forest is a part, and their nodes
  // in the order of the forest's.
  std::vector<ProposalTree> trees;
  std::vector<int32_t> tree_node;

  bool empty() const { return prefills.empty() && sequences.empty(); }
};

// Every job past its prefill verifies a tree: the nodes are the likeliest of
// the whole batch, as many as the policy chooses (Sec. V-A), and of each tree
// no more than its job has pages for and its request allows. A round is lent
// only if the worker can keep to what the requests allow: it knows caps, but
// neither chains within trees nor bounds of depth. The others get the next
// chunk of their prefill, oldest first, until the worker's limit on tokens, or
// what the policy lets share the round, is reached. If the policy wants the
// urgent first (RoundPolicy::urgent_first()), the oldest gets the least chunk
// that there is, and the rest goes to those whose first token is due soonest,
// while it can still come in time. Chunks end on kPrefillGrid, where a cut
// leaves no trace.
//
// What the drafter has not seen of a sequence goes with the next plan that
// drafts, or with one after which it could be more than the worker keeps. A
// plan that neither drafts nor defers leaves all whom it runs behind: from then
// on the drafter does not follow them (Placement::is_followed()). Nor does it
// follow those whose prefill begins and whom the policy does not want followed.
// Sequences and chunks that are followed come first. A round that drafts is
// lent only if all its sequences are followed.
//
// The trees are taken out of the placements.
//
// REQUIRES: every placement holds the pages of its prefill, or of a root
//     (Placements::Grow()).
// COST: O(candidates of the batch).
PlannedRound PlanRound(std::span<const std::unique_ptr<Placement>> placements,
                       RoundPolicy& policy, const PlanOptions& options,
                       const PlanTime& time);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PLANNER_H_
