#include "scheduler_service/jobs/job.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>

#include "common/check.h"

namespace bole {

Job::Job(std::unique_ptr<Request> request, const Tokenizer& tokenizer)
    : request_(std::move(request)),
      tokens_(request_->prompt),
      text_(tokenizer, request_->text, request_->sampling.min_tokens) {
  for (const int32_t token : request_->resumed) {
    tokens_.push_back(token);
    text_.Push(token);  // The client has the text.
  }
}

int Job::prompt_length() const {
  return static_cast<int>(request_->prompt.size());
}

int Job::num_output() const {
  return static_cast<int>(tokens_.size()) - prompt_length();
}

int Job::max_new_tokens() const {
  return *request_->sampling.max_tokens - num_output();
}

int Job::prefill_target() const {
  return num_output() == 0 ? prompt_length()
                           : static_cast<int>(tokens_.size()) - 1;
}

int Job::num_prompt_logprobs() const {
  return request_->sampling.prompt_logprobs ? prompt_length() - 1 : 0;
}

void Job::AddPromptLogprobs(int first, std::vector<EmittedToken> tokens) {
  BOLE_CHECK(first <= known_prompt_logprobs_);
  const int64_t known = known_prompt_logprobs_ - first;
  for (int64_t i = known; i < std::ssize(tokens); ++i) {
    prompt_logprobs_.push_back(std::move(tokens[i]));
    ++known_prompt_logprobs_;
  }
  BOLE_CHECK(known_prompt_logprobs_ <= num_prompt_logprobs());
}

Job::Progress Job::Advance(std::vector<EmittedToken> emitted) {
  Progress progress;
  if (!emitted.empty()) {
    progress.prompt_logprobs = std::exchange(prompt_logprobs_, {});
  }
  for (EmittedToken& token : emitted) {
    tokens_.push_back(token.token);
    progress.end = EndOf(token.token);
    const bool hidden = progress.end &&
                        std::holds_alternative<int32_t>(*progress.end) &&
                        !request_->text.include_stop_in_output;
    if (!hidden) progress.text += text_.Push(token.token);
    progress.tokens.push_back(std::move(token));
    if (text_.matched_stop()) progress.end = *text_.matched_stop();
    if (progress.end) break;
  }
  if (progress.end && !text_.matched_stop()) progress.text += text_.Finish();
  return progress;
}

std::optional<MatchedStop> Job::EndOf(int32_t token) const {
  const std::vector<int32_t>& stops = request_->stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    return token;
  }
  if (max_new_tokens() <= 0) return std::monostate();
  return std::nullopt;
}

void Job::CountRound(const Round& round) {
  ++speculation_.rounds;
  speculation_.selected_nodes += round.nodes;
  speculation_.promised_tokens += round.promised_drafts;
  speculation_.accepted_drafts += round.accepted_drafts;
  if (round.nodes > 1) {
    ++(round.is_chain ? speculation_.chain_rounds : speculation_.tree_rounds);
    return;
  }
  ++speculation_.off_rounds;
  ++off_reasons_[static_cast<size_t>(round.off_reason)];
}

Completion Job::CompletionAt(TimePoint now, MatchedStop matched) const {
  const auto since_arrival = [this](TimePoint time) {
    return std::chrono::duration<double>(time - request_->arrival).count();
  };
  SpeculationSummary speculation = speculation_;
  const auto most = std::max_element(off_reasons_.begin(), off_reasons_.end());
  speculation.off_reason =
      NameOf(static_cast<OffReason>(most - off_reasons_.begin()));
  return {.matched = std::move(matched),
          .rounds = speculation_.rounds,
          .accepted_drafts = speculation_.accepted_drafts,
          .cached_tokens = std::min(cached_tokens, prompt_length()),
          .speculation = std::move(speculation),
          .queue_seconds = since_arrival(*first_run),
          .first_token_seconds = since_arrival(*first_token),
          .total_seconds = since_arrival(now)};
}

}  // namespace bole
