// The bounds on what waits for a place in the batch.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_

#include <cstddef>
#include <optional>

#include "scheduler_service/jobs/refusal.h"

namespace bole {

// Bounds on the requests of one tenant that wait for a place in the batch while
// no other tenant's do. A call that exceeds the tokens or bytes by itself is
// still accepted when nothing else waits.
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

// The part of a bound that one tenant may use while the others use `others` of
// it: the bound less eight ninths of that. A tenant that is alone may fill the
// queue; a newcomer still finds a ninth, and those that were there get no more
// until their own part has shrunk. However many tenants there are, all of them
// together use at most nine eighths of the bound.
size_t BoundBeside(size_t others, size_t bound);

// Returns the refusal by the bound that `more`, the requests of one call, would
// exceed, if any: the only place where these bounds are applied. Before a
// prompt is tokenized, `more` is a lower bound of what the call has. `own` is
// what already waits of its tenant, `others` what waits of all other tenants.
std::optional<Refusal> CheckAdmission(const AdmissionLimits& limits,
                                      const AdmissionLoad& own,
                                      const AdmissionLoad& others,
                                      const AdmissionLoad& more);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_
