// What ValidateResult() checks of a prefill chunk's answer alone.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_CHUNK_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_CHUNK_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "scheduler_service/replicas/answer_checks.h"

namespace bole {

// How far it came, how many tokens it emitted, and the log probabilities of the
// prompt. INVALID_ARGUMENT with the field, its value and what is allowed.
absl::Status CheckChunk(const Answer& answer, const PrefillPlan& chunk,
                        int vocabulary);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_CHUNK_H_
