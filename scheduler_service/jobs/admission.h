// The bounds on what waits for a place in the batch.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_

#include <cstddef>
#include <optional>

#include "scheduler_service/jobs/refusal.h"

namespace bole {

// Bounds on the requests of one tenant that wait for a place in the batch while
// no other tenant's do. What comes in one call and alone exceeds the tokens or
// bytes is still taken when nothing else waits.
struct AdmissionLimits {
  size_t max_requests = 1024;
  size_t max_tokens = 1 << 20;  // Their prompts together.
  size_t max_bytes = 64 << 20;  // Their messages together.
};

struct AdmissionLoad {
  size_t requests = 0;
  size_t tokens = 0;
  size_t bytes = 0;

  AdmissionLoad& operator+=(const AdmissionLoad& more);
  // REQUIRES: `less` is a part of it.
  AdmissionLoad& operator-=(const AdmissionLoad& less);
};

// What is left of a bound for one tenant beside what the others wait with: all
// of it but eight ninths of theirs. A tenant that is alone may fill the queue;
// a newcomer still finds a ninth, and those that were there get no more until
// their own part has shrunk. However many tenants there are, all of them
// together wait with at most nine eighths of the bound.
size_t BoundBeside(size_t others, size_t bound);

// The bound that keeps `more`, the requests of one call, out, if any does: the
// only place where these bounds are applied. Before a prompt is in tokens,
// `more` is what the call has at least. `own` is what its tenant waits with
// already, `others` what all other tenants do.
std::optional<Refusal> CheckAdmission(const AdmissionLimits& limits,
                                      const AdmissionLoad& own,
                                      const AdmissionLoad& others,
                                      const AdmissionLoad& more);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_
