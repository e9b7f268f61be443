#include "worker_service/engine/validate_plan.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

absl::Status CheckNoTail(const char* kind, size_t number,
                         const SequencePlan& sequence) {
  if (sequence.draft_tail.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      kind, " ", number, ": the draft tail has ", sequence.draft_tail.size(),
      " tokens, the checkpoint has no drafter"));
}

}  // namespace

absl::Status ValidatePlan(const StepPlan& plan, const StepLimits& limits,
                          bool has_drafter) {
  BOLE_RETURN_IF_ERROR(Validate(plan, limits));
  if (has_drafter) return absl::OkStatus();
  if (plan.draft || plan.defers_draft) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan ", plan.draft ? "asks for" : "defers",
                     " a draft, the checkpoint has no drafter"));
  }
  for (size_t b = 0; b < plan.prefills.size(); ++b) {
    BOLE_RETURN_IF_ERROR(CheckNoTail("prefill", b, plan.prefills[b].sequence));
  }
  for (size_t b = 0; b < plan.sequences.size(); ++b) {
    BOLE_RETURN_IF_ERROR(CheckNoTail("sequence", b, plan.sequences[b]));
  }
  return absl::OkStatus();
}

}  // namespace bole
