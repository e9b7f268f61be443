// What came of a round, for whoever learns from it.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_REPORT_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_REPORT_H_

#include "common/step.h"
#include "common/step_costs.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/round_in_flight.h"

namespace bole {

// Of the awaited round, with the forest that the worker chose, if it did.
RoundQuantities QuantitiesOf(const AwaitedRound& awaited,
                             const StepResult& result);

// Tells the policy of a round that has come back, its jobs what was verified
// for them, its placements what the drafter has seen, and the round's metrics
// what was promised. REQUIRES: ValidateResult() held; `result` was not applied
// yet, nor the awaited round advanced. COST: O(nodes of the trees that the
// scheduler selected from).
void ReportRound(const StepResult& result, RoundInFlight& round,
                 RoundPolicy& policy);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_REPORT_H_
