// What the policies that know costs have in common.
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
  bool can_defer = true;  // It may stop to draft, and begin again.
};

// What drafts of these shapes need. Their nodes are bounded by the worker
// alone: how many of them are verified is the policy's choice.
RoundBounds WidestBounds(std::span<const std::optional<DraftShape>> shapes,
                         const StepLimits& limits);

// Rounds of a lease each of which takes `round_seconds`: as many as are allowed
// and end within PolicyOptions::max_lease, at least one.
int LeaseRounds(const PolicyOptions& options, const StepLimits& limits,
                double round_seconds);

// Completes a choice whose budget and draft are made: what the round is
// predicted to take, and a lease whose rounds have the same budget if nobody
// waits.
void PredictAndLend(const RoundView& view, const PolicyOptions& options,
                    const CalibratedWorker& worker, RoundChoice& choice);

void ObserveCosts(const RoundReport& report, CostModel& costs);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_CALIBRATED_WORKER_H_
