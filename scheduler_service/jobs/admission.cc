#include "scheduler_service/jobs/admission.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace bole {
namespace {

struct Bound {
  RefusalReason reason;
  const char* unit;
  size_t AdmissionLoad::*load;
  size_t AdmissionLimits::*max;
  bool applies_to_a_lone_call;
};

constexpr Bound kBounds[] = {
    {.reason = RefusalReason::kQueueRequests,
     .unit = "requests",
     .load = &AdmissionLoad::requests,
     .max = &AdmissionLimits::max_requests,
     .applies_to_a_lone_call = true},
    {.reason = RefusalReason::kQueueTokens,
     .unit = "prompt tokens",
     .load = &AdmissionLoad::tokens,
     .max = &AdmissionLimits::max_tokens,
     .applies_to_a_lone_call = false},
    {.reason = RefusalReason::kQueueBytes,
     .unit = "bytes",
     .load = &AdmissionLoad::bytes,
     .max = &AdmissionLimits::max_bytes,
     .applies_to_a_lone_call = false},
};

}  // namespace

AdmissionLoad& AdmissionLoad::operator+=(const AdmissionLoad& more) {
  requests += more.requests;
  tokens += more.tokens;
  bytes += more.bytes;
  return *this;
}

AdmissionLoad& AdmissionLoad::operator-=(const AdmissionLoad& less) {
  BOLE_CHECK(requests >= less.requests && tokens >= less.tokens &&
             bytes >= less.bytes);
  requests -= less.requests;
  tokens -= less.tokens;
  bytes -= less.bytes;
  return *this;
}

// This is the dynamic threshold of shared buffers in switches (Choudhury and
// Hahne, 1998): each tenant may have eight times what is left of nine eighths
// of the bound, solved for what it has.
size_t BoundBeside(size_t others, size_t bound) {
  return bound - std::min(bound, (8 * others + 8) / 9);
}

std::optional<Refusal> CheckAdmission(const AdmissionLimits& limits,
                                      const AdmissionLoad& own,
                                      const AdmissionLoad& others,
                                      const AdmissionLoad& more) {
  const bool is_lone = own.requests == 0 && others.requests == 0;
  for (const Bound& bound : kBounds) {
    if (is_lone && !bound.applies_to_a_lone_call) continue;
    const size_t waits = own.*bound.load;
    const size_t beside = others.*bound.load;
    const size_t max = BoundBeside(beside, limits.*bound.max);
    if (waits + more.*bound.load <= max) continue;
    const std::string of_others =
        beside == 0 ? ""
                    : absl::StrCat(" beside ", beside, " of other tenants");
    return Refusal{.reason = bound.reason,
                   .message = absl::StrCat(
                       NameOf(bound.reason), ": ", waits, " ", bound.unit,
                       " wait, of at most ", max, of_others,
                       ", and the request has at least ", more.*bound.load),
                   .bound = ReachedBound{.count = waits, .max = max}};
  }
  return std::nullopt;
}

}  // namespace bole
