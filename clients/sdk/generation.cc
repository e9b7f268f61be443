#include "clients/sdk/generation.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bole {
namespace {

// How many of `size` units, the first of which is number `seen`, are among the
// `whole` that came before.
size_t Overlap(size_t seen, size_t whole, size_t size) {
  return std::min(size, whole > seen ? whole - seen : 0);
}

// A seed that JSON readers do not round.
uint64_t DrawSeed() {
  std::random_device device;
  constexpr int kHighBits = 21;
  return (uint64_t{device()} << kHighBits) ^ device();
}

}  // namespace

Generation::Generation(v1::GenerateRequest request, const RetryPolicy& policy,
                       std::optional<TimePoint> deadline, uint64_t jitter_seed)
    : request_(std::move(request)),
      retries_(policy, deadline, jitter_seed),
      choices_(request_.has_n() ? std::clamp(request_.n(), 1u, 1024u) : 1) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (static_cast<int>(i) >= request_.resume_size()) break;
    const v1::ResumedChoice& had = request_.resume(static_cast<int>(i));
    Choice& choice = choices_[i];
    choice.ids.assign(had.output_ids().begin(), had.output_ids().end());
    choice.whole.tokens = choice.ids.size();
    choice.before_last = choice.whole;
    choice.complete = had.complete();
  }
  if (policy.max_resumes <= 0) return;
  v1::SamplingParams& sampling = *request_.mutable_sampling_params();
  if (!sampling.has_seed()) sampling.set_seed(DrawSeed());
  if (request_.request_id().empty()) {
    request_.set_request_id(absl::StrCat("sdk-", absl::Hex(DrawSeed())));
  }
}

void Generation::Begin(TimePoint now) {
  if (!began_) stats_.sent = now;
  progressed_ = false;
  for (Choice& choice : choices_) choice.seen = choice.before_last;
}

bool Generation::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return false;
}

bool Generation::Take(v1::GenerateResponse& response) {
  if (!status_.ok()) return false;
  const uint32_t index = response.has_chunk() ? response.chunk().index()
                                              : response.complete().index();
  if (index >= choices_.size() || choices_[index].complete) {
    return Fail(absl::InternalError(
        absl::StrCat("a response is of choice ", index, ", which is over")));
  }
  Choice& choice = choices_[index];
  const bool left = response.has_chunk()
                        ? TakeChunk(*response.mutable_chunk(), choice)
                        : TakeComplete(*response.mutable_complete(), choice);
  if (!left) return false;
  began_ = true;
  progressed_ = true;
  return true;
}

bool Generation::TakeChunk(v1::GenerateChunk& chunk, Choice& choice) {
  const Position before = choice.seen;
  const Position& whole = choice.whole;
  const auto num_tokens = static_cast<size_t>(chunk.token_ids_size());
  const auto num_calls = static_cast<size_t>(chunk.tool_calls_size());
  const size_t tokens = Overlap(before.tokens, whole.tokens, num_tokens);
  const size_t text = Overlap(before.text, whole.text, chunk.text().size());
  const size_t reasoning = Overlap(before.reasoning, whole.reasoning,
                                   chunk.reasoning_content().size());
  const size_t calls = Overlap(before.tool_calls, whole.tool_calls, num_calls);
  if (!std::equal(chunk.token_ids().begin(),
                  chunk.token_ids().begin() + static_cast<int>(tokens),
                  choice.ids.begin() + static_cast<int>(before.tokens))) {
    return Fail(absl::DataLossError(
        "the stream broke, and was resumed with another text"));
  }
  choice.seen = {
      .tokens = before.tokens + num_tokens,
      .text = before.text + chunk.text().size(),
      .reasoning = before.reasoning + chunk.reasoning_content().size(),
      .tool_calls = before.tool_calls + num_calls};
  choice.ids.insert(choice.ids.end(),
                    chunk.token_ids().begin() + static_cast<int>(tokens),
                    chunk.token_ids().end());
  if (num_tokens > tokens) choice.before_last = before;
  choice.whole = {
      .tokens = std::max(whole.tokens, choice.seen.tokens),
      .text = std::max(whole.text, choice.seen.text),
      .reasoning = std::max(whole.reasoning, choice.seen.reasoning),
      .tool_calls = std::max(whole.tool_calls, choice.seen.tool_calls)};
  const bool prompt = chunk.has_prompt() && !has_prompt_;
  if (chunk.has_prompt() && has_prompt_) chunk.clear_prompt();
  has_prompt_ = has_prompt_ || prompt;
  if (tokens + text + reasoning + calls == 0) return true;

  const int logprobs =
      std::min(static_cast<int>(tokens), chunk.output_logprobs_size());
  chunk.mutable_token_ids()->erase(
      chunk.token_ids().begin(),
      chunk.token_ids().begin() + static_cast<int>(tokens));
  chunk.mutable_output_logprobs()->DeleteSubrange(0, logprobs);
  chunk.mutable_text()->erase(0, text);
  chunk.mutable_reasoning_content()->erase(0, reasoning);
  chunk.mutable_tool_calls()->DeleteSubrange(0, static_cast<int>(calls));
  return chunk.token_ids_size() > 0 || !chunk.text().empty() ||
         !chunk.reasoning_content().empty() || chunk.tool_calls_size() > 0 ||
         prompt;
}

bool Generation::TakeComplete(v1::GenerateComplete& complete, Choice& choice) {
  if (choice.seen.tokens < choice.whole.tokens &&
      complete.output_ids().empty()) {
    return Fail(absl::DataLossError(
        "the stream broke, and was resumed with a shorter text"));
  }
  if (has_prompt_) complete.clear_prompt();
  has_prompt_ = has_prompt_ || complete.has_prompt();
  choice.complete = true;
  return true;
}

bool Generation::complete() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return choice.complete; });
}

std::optional<std::chrono::milliseconds> Generation::End(
    const grpc::Status& status, bool cancelled, TimePoint now) {
  if (!status_.ok()) return std::nullopt;  // Take() has found what is wrong.
  // A connection that breaks behind the last message takes nothing away.
  if (complete()) return std::nullopt;
  if (status.ok()) {
    status_ = absl::InternalError("the answer has no end");
    return std::nullopt;
  }
  // Whatever the attempt came to in the same moment.
  if (cancelled) {
    Cancel();
    return std::nullopt;
  }
  const auto delay =
      retries_.DelayAfter(ReadError(status), began_, progressed_, now);
  if (!delay) {
    status_ = ToCallStatus(status);
    return std::nullopt;
  }
  ++(began_ ? stats_.resumes : stats_.retries);
  if (began_) Resume();
  return delay;
}

void Generation::Resume() {
  request_.clear_resume();
  for (const Choice& choice : choices_) {
    v1::ResumedChoice& had = *request_.add_resume();
    had.set_complete(choice.complete);
    if (choice.complete) continue;
    had.mutable_output_ids()->Assign(
        choice.ids.begin(),
        choice.ids.begin() + static_cast<int>(choice.before_last.tokens));
  }
  if (!has_prompt_) return;
  request_.clear_echo();
  request_.clear_prompt_logprobs();
}

}  // namespace bole
