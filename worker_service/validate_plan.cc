#include "worker_service/validate_plan.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {

absl::Status ValidatePlan(const StepPlan& plan, const StepLimits& limits,
                          bool has_drafter) {
  BOLE_RETURN_IF_ERROR(Validate(plan, limits));
  if (has_drafter) return absl::OkStatus();
  if (plan.draft || plan.defers_draft) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan ", plan.draft ? "asks for" : "defers",
                     " a draft, the checkpoint has no drafter"));
  }
  for (size_t b = 0; b < plan.sequences.size(); ++b) {
    if (plan.sequences[b].draft_tail.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", b, ": the draft tail has ",
                     plan.sequences[b].draft_tail.size(),
                     " tokens, the checkpoint has no drafter"));
  }
  return absl::OkStatus();
}

}  // namespace bole
