// What ValidateResult() checks of one sequence's answer, whatever was asked.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ANSWER_CHECKS_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ANSWER_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/step.h"

namespace bole {

// What is checked about one sequence of the round.
struct Answer {
  std::string who;  // "sequence 3"
  const SequencePlan& plan;
  const SequenceResult& result;
};

// INVALID_ARGUMENT, all of them, with the field, its value and what is allowed.
absl::Status CheckRange(const Answer& answer, const absl::AlphaNum& field,
                        int64_t value, int64_t low, int64_t high);
absl::Status CheckEqual(const absl::AlphaNum& field, int64_t value,
                        int64_t want);
absl::Status CheckEqual(const Answer& answer, const char* field, int64_t value,
                        int64_t want);

// A token's log probability, and those of `num_top` alternatives.
absl::Status CheckLogprobs(const Answer& answer, const EmittedToken& token,
                           int num_top, int vocabulary);

// What is left of a sequence whose logits at `want` were not numbers.
absl::Status CheckFailure(const Answer& answer, int64_t want);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ANSWER_CHECKS_H_
