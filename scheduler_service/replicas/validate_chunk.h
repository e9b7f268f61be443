// The checks of ValidateResult() that only apply to a prefill chunk's answer.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_CHUNK_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_CHUNK_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "scheduler_service/replicas/answer_checks.h"

namespace bole {

// Checks the committed position, the number of emitted tokens, and the log
// probabilities of the prompt. INVALID_ARGUMENT with the field, its value and
// what is allowed.
absl::Status CheckChunk(const Answer& answer, const PrefillPlan& chunk,
                        int vocabulary);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_CHUNK_H_
