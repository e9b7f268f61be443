// The bounds on what waits for a place in the batch.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_

#include <cstddef>
#include <optional>

#include "scheduler_service/jobs/refusal.h"

namespace bole {

// Bounds on the requests that wait for a place in the batch. What comes in one
// call and alone exceeds the tokens or bytes is still taken when nothing else
// waits.
struct AdmissionLimits {
  size_t max_requests = 1024;
  size_t max_tokens = 1 << 20;  // Their prompts together.
  size_t max_bytes = 64 << 20;  // Their messages together.
};

struct AdmissionLoad {
  size_t requests = 0;
  size_t tokens = 0;
  size_t bytes = 0;
};

// The bound that keeps `more`, the requests of one call, out, if any does: the
// only place where these bounds are applied. Before a prompt is in tokens,
// `more` is what the call has at least.
std::optional<Refusal> CheckAdmission(const AdmissionLimits& limits,
                                      const AdmissionLoad& waiting,
                                      const AdmissionLoad& more);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_ADMISSION_H_
