// Reports the result of a round to the objects that learn from it.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_REPORT_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_REPORT_H_

#include "common/step.h"
#include "common/step_costs.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/round_in_flight.h"

namespace bole {

// The quantities of the awaited round, by the forest that the worker chose if
// it did so, or else by the plan's.
RoundQuantities QuantitiesOf(const AwaitedRound& awaited,
                             const StepResult& result);

// Reports a finished round: to the policy its result, to its jobs what was
// verified for them, to its placements what the drafter has seen, and to the
// round's metrics what was promised. REQUIRES: ValidateResult() accepted
// `result`, which was not applied yet, and the awaited round was not advanced.
// COST: O(nodes of the trees that the scheduler selected from).
void ReportRound(const StepResult& result, RoundInFlight& round,
                 RoundPolicy& policy);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_REPORT_H_
