// Checks whether a worker can run a plan.
#ifndef BOLE_WORKER_SERVICE_ENGINE_VALIDATE_PLAN_H_
#define BOLE_WORKER_SERVICE_ENGINE_VALIDATE_PLAN_H_

#include "absl/status/status.h"
#include "common/step.h"

namespace bole {

// INVALID_ARGUMENT, naming the field and its value, unless Validate() accepts
// the plan and the checkpoint has the drafter that the plan requires. A worker
// calls this once for each plan: ComputeLoop for those of a scheduler,
// Engine::Step for those of any other caller.
// COST: as Validate().
absl::Status ValidatePlan(const StepPlan& plan, const StepLimits& limits,
                          bool has_drafter);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_VALIDATE_PLAN_H_
