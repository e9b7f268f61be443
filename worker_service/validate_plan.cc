#include "worker_service/validate_plan.h"

#include "common/status_macros.h"

namespace bole {

absl::Status ValidatePlan(const StepPlan& plan, const StepLimits& limits,
                          bool has_drafter) {
  BOLE_RETURN_IF_ERROR(Validate(plan, limits));
  if (!plan.draft || has_drafter) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the plan asks for a draft, the checkpoint has no drafter");
}

}  // namespace bole
