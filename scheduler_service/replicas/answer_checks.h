// The checks of ValidateResult() that are the same for every sequence's answer.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ANSWER_CHECKS_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ANSWER_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/step.h"

namespace bole {

// The answer for one sequence of the round, and what it is checked against.
struct Answer {
  std::string who;  // "sequence 3"
  const SequencePlan& plan;
  const SequenceResult& result;
};

// All of these return INVALID_ARGUMENT with the field, its value and what is
// allowed.
absl::Status CheckRange(const Answer& answer, const absl::AlphaNum& field,
                        int64_t value, int64_t low, int64_t high);
absl::Status CheckEqual(const absl::AlphaNum& field, int64_t value,
                        int64_t want);
absl::Status CheckEqual(const Answer& answer, const char* field, int64_t value,
                        int64_t want);

// Checks a token's log probability, and those of `num_top` alternatives.
absl::Status CheckLogprobs(const Answer& answer, const EmittedToken& token,
                           int num_top, int vocabulary);

// Checks the answer of a sequence whose logits at `want` were not numbers.
absl::Status CheckFailure(const Answer& answer, int64_t want);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ANSWER_CHECKS_H_
