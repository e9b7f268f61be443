// The common part of the policies that use costs.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_CALIBRATED_WORKER_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_CALIBRATED_WORKER_H_

#include <optional>
#include <span>

#include "common/draft_shape.h"
#include "common/step.h"
#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

struct CalibratedWorker {
  StepLimits limits;
  CostModel costs;
  bool can_defer = true;  // It may pause drafting and resume it.
};

// The bounds that drafts of these shapes need. Only the worker's limits bound
// their nodes: how many of them are verified is the policy's choice.
RoundBounds WidestBounds(std::span<const std::optional<DraftShape>> shapes,
                         const StepLimits& limits);

// The number of rounds of a lease if each takes `round_seconds`: as many as are
// allowed and end within PolicyOptions::max_lease, but at least one.
int LeaseRounds(const PolicyOptions& options, const StepLimits& limits,
                double round_seconds);

// Completes a choice whose budget and draft are set: adds the predicted time of
// the round and, if nobody waits, a lease whose rounds have the same budget.
void PredictAndLend(const RoundView& view, const PolicyOptions& options,
                    const CalibratedWorker& worker, RoundChoice& choice);

void ObserveCosts(const RoundReport& report, CostModel& costs);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_CALIBRATED_WORKER_H_
