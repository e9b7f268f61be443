#include "scheduler_service/sequence.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace bole {
namespace {

ProposalTree LoneRoot(int32_t token) {
  return {.parent = {kNoParent}, .token = {token}, .log_rho = {0}};
}

}  // namespace

Sequence::Sequence(std::unique_ptr<Request> request, const Tokenizer& tokenizer)
    : request_(std::move(request)),
      tokens_(request_->prompt),
      text_(tokenizer, request_->text) {}

int Sequence::prompt_length() const {
  return static_cast<int>(request_->prompt.size());
}

int Sequence::num_output() const {
  return static_cast<int>(tokens_.size()) - prompt_length();
}

int Sequence::max_new_tokens() const {
  return *request_->sampling.max_tokens - num_output();
}

int Sequence::prefill_target() const {
  return num_output() == 0 ? prompt_length()
                           : static_cast<int>(tokens_.size()) - 1;
}

PrefillPlan Sequence::Chunk(int count) const {
  const int end = committed_ + count;
  BOLE_CHECK(count > 0 && end <= prefill_target());
  PrefillPlan chunk{
      .sequence = Plan(),
      .tokens = {tokens_.begin() + committed_, tokens_.begin() + end}};
  if (end < static_cast<int>(tokens_.size())) chunk.next_token = tokens_[end];
  return chunk;
}

SequencePlan Sequence::Plan() const {
  return {.slot = *slot,
          .committed = committed_,
          .pages = pages,
          .sampling = request_->sampling,
          .stop_tokens = request_->stop_tokens,
          .prompt_length = prompt_length(),
          .max_new_tokens = max_new_tokens()};
}

Sequence::Progress Sequence::Advance(SequenceResult result) {
  const bool was_in_prefill = in_prefill();
  committed_ = result.committed;
  if (!was_in_prefill) {
    ++rounds_;
    accepted_drafts_ += result.accepted_drafts;
  }
  Progress progress;
  for (EmittedToken& token : result.emitted) {
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
  if (progress.end) {
    if (!text_.matched_stop()) progress.text += text_.Finish();
  } else if (result.proposal) {
    tree_ = *std::move(result.proposal);
  } else if (!in_prefill()) {
    tree_ = LoneRoot(tokens_.back());
  }
  return progress;
}

std::optional<MatchedStop> Sequence::EndOf(int32_t token) const {
  const std::vector<int32_t>& stops = request_->stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    return token;
  }
  if (max_new_tokens() <= 0) return std::monostate();
  return std::nullopt;
}

void Sequence::Restart() {
  BOLE_CHECK(!slot && pages.empty());
  committed_ = 0;
  tree_ = {};
}

}  // namespace bole
