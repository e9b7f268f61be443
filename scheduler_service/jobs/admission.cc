#include "scheduler_service/jobs/admission.h"

#include "absl/strings/str_cat.h"

namespace bole {
namespace {

struct Bound {
  RefusalReason reason;
  const char* unit;
  size_t AdmissionLoad::*load;
  size_t AdmissionLimits::*max;
  bool applies_to_a_lone_request;
};

constexpr Bound kBounds[] = {
    {.reason = RefusalReason::kQueueRequests,
     .unit = "requests",
     .load = &AdmissionLoad::requests,
     .max = &AdmissionLimits::max_requests,
     .applies_to_a_lone_request = true},
    {.reason = RefusalReason::kQueueTokens,
     .unit = "prompt tokens",
     .load = &AdmissionLoad::tokens,
     .max = &AdmissionLimits::max_tokens,
     .applies_to_a_lone_request = false},
    {.reason = RefusalReason::kQueueBytes,
     .unit = "bytes",
     .load = &AdmissionLoad::bytes,
     .max = &AdmissionLimits::max_bytes,
     .applies_to_a_lone_request = false},
};

}  // namespace

std::optional<Refusal> CheckAdmission(const AdmissionLimits& limits,
                                      const AdmissionLoad& waiting,
                                      size_t tokens, size_t bytes) {
  const AdmissionLoad more = {.requests = 1, .tokens = tokens, .bytes = bytes};
  for (const Bound& bound : kBounds) {
    if (waiting.requests == 0 && !bound.applies_to_a_lone_request) continue;
    const size_t waits = waiting.*bound.load;
    const size_t max = limits.*bound.max;
    if (waits + more.*bound.load <= max) continue;
    return Refusal{.reason = bound.reason,
                   .message = absl::StrCat(
                       NameOf(bound.reason), ": ", waits, " ", bound.unit,
                       " wait, of at most ", max,
                       ", and the request has at least ", more.*bound.load),
                   .bound = ReachedBound{.count = waits, .max = max}};
  }
  return std::nullopt;
}

}  // namespace bole
