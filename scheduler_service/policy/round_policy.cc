#include "scheduler_service/policy/round_policy.h"

namespace bole {

const char* NameOf(OffReason reason) {
  switch (reason) {
    case OffReason::kNone:
      return "";
    case OffReason::kAsked:
      return "asked";
    case OffReason::kNoDrafter:
      return "no_drafter";
    case OffReason::kNotFaster:
      return "not_faster";
  }
  return "";
}

}  // namespace bole
