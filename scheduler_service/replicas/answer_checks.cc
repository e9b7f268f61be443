#include "scheduler_service/replicas/answer_checks.h"

#include <cmath>
#include <iterator>

#include "common/field_error.h"
#include "common/proposal_tree.h"
#include "common/status_macros.h"

namespace bole {
namespace {

absl::Status CheckIsNumber(const Answer& answer, const char* field,
                           float value) {
  if (!std::isnan(value)) return absl::OkStatus();
  return BadField(absl::StrCat(answer.who, ": ", field), value, "a number");
}

}  // namespace

absl::Status CheckRange(const Answer& answer, const absl::AlphaNum& field,
                        int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return BadField(absl::StrCat(answer.who, ": ", field), value,
                  absl::StrCat("[", low, ", ", high, "]"));
}

absl::Status CheckEqual(const absl::AlphaNum& field, int64_t value,
                        int64_t want) {
  if (value == want) return absl::OkStatus();
  return BadField(absl::StrCat(field), value, want);
}

absl::Status CheckEqual(const Answer& answer, const char* field, int64_t value,
                        int64_t want) {
  if (value == want) return absl::OkStatus();
  return BadField(absl::StrCat(answer.who, ": ", field), value, want);
}

absl::Status CheckLogprobs(const Answer& answer, const EmittedToken& token,
                           int num_top, int vocabulary) {
  BOLE_RETURN_IF_ERROR(CheckEqual(answer, "the number of top log-probabilities",
                                  std::ssize(token.top), num_top));
  BOLE_RETURN_IF_ERROR(
      CheckIsNumber(answer, "a log-probability", token.logprob));
  for (const TokenLogprob& top : token.top) {
    BOLE_RETURN_IF_ERROR(
        CheckRange(answer, "a top token", top.token, 0, vocabulary - 1));
    BOLE_RETURN_IF_ERROR(
        CheckIsNumber(answer, "a top log-probability", top.logprob));
  }
  return absl::OkStatus();
}

absl::Status CheckFailure(const Answer& answer, int64_t want) {
  if (answer.result.proposal) {
    return absl::InvalidArgumentError(absl::StrCat(
        answer.who, ": a proposal of ", answer.result.proposal->size(),
        " nodes beside bad_logits_position"));
  }
  return CheckEqual(answer, "bad_logits_position",
                    *answer.result.bad_logits_position, want);
}

}  // namespace bole
