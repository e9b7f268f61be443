#include "scheduler_service/replicas/validate_chunk.h"

#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// Checks the log probabilities of the prompt's tokens that follow those of the
// chunk.
absl::Status CheckPromptLogprobs(const Answer& answer, const PrefillPlan& chunk,
                                 int vocabulary) {
  const std::vector<EmittedToken>& tokens = answer.result.prompt_logprobs;
  if (tokens.empty()) return absl::OkStatus();
  const bool expected =
      chunk.prompt_logprobs && !answer.result.bad_logits_position;
  BOLE_RETURN_IF_ERROR(CheckEqual(
      answer, "the number of prompt log-probabilities", std::ssize(tokens),
      expected ? chunk.NumPromptFollowers() : 0));
  for (int i = 0; i < std::ssize(tokens); ++i) {
    BOLE_RETURN_IF_ERROR(CheckEqual(answer, "a token of the prompt",
                                    tokens[i].token, chunk.Follower(i)));
    BOLE_RETURN_IF_ERROR(
        CheckLogprobs(answer, tokens[i], *chunk.prompt_logprobs, vocabulary));
  }
  return absl::OkStatus();
}

// A chunk can fail only where a token was to be drawn, which is at its end, or
// where the log probability of the following token was to be computed.
absl::Status CheckFailedChunk(const Answer& answer, const PrefillPlan& chunk) {
  const int64_t position = *answer.result.bad_logits_position;
  const int64_t first = answer.plan.committed;
  const int64_t num_followers =
      chunk.prompt_logprobs ? chunk.NumPromptFollowers() : 0;
  if (position >= first && position < first + num_followers) {
    return CheckFailure(answer, position);
  }
  if (chunk.next_token) {
    return absl::InvalidArgumentError(
        absl::StrCat(answer.who, ": bad_logits_position is ", position,
                     " where no token was to be drawn"));
  }
  return CheckFailure(answer, int64_t{answer.result.committed} - 1);
}

}  // namespace

absl::Status CheckChunk(const Answer& answer, const PrefillPlan& chunk,
                        int vocabulary) {
  const bool failed = answer.result.bad_logits_position.has_value();
  if (failed) BOLE_RETURN_IF_ERROR(CheckFailedChunk(answer, chunk));
  BOLE_RETURN_IF_ERROR(
      CheckEqual(answer, "committed", answer.result.committed,
                 answer.plan.committed + std::ssize(chunk.tokens)));
  BOLE_RETURN_IF_ERROR(CheckEqual(answer, "the number of emitted tokens",
                                  std::ssize(answer.result.emitted),
                                  chunk.next_token || failed ? 0 : 1));
  BOLE_RETURN_IF_ERROR(
      CheckEqual(answer, "accepted_drafts", answer.result.accepted_drafts, 0));
  return CheckPromptLogprobs(answer, chunk, vocabulary);
}

}  // namespace bole
