#include "scheduler_service/door/messages/response_codec.h"

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/sha256.h"
#include "common/step.h"
#include "common/tokenizer/utf8.h"
#include "google/protobuf/repeated_field.h"
#include "scheduler_service/jobs/output_text.h"

namespace bole {
namespace {

// Fills in a TokenLogprob or a TopLogprob.
template <typename Message>
void EncodeToken(int32_t token, float logprob, const Tokenizer& tokenizer,
                 Message& message) {
  message.set_token_id(token);
  message.set_logprob(logprob);
  const std::string_view bytes = tokenizer.TokenBytes(token);
  message.set_text(ReplaceInvalidUtf8(bytes));
  message.set_bytes(bytes.data(), bytes.size());
}

void EncodeLogprobs(
    const std::vector<EmittedToken>& tokens, const Tokenizer& tokenizer,
    google::protobuf::RepeatedPtrField<v1::TokenLogprob>& messages) {
  for (const EmittedToken& token : tokens) {
    v1::TokenLogprob& message = *messages.Add();
    EncodeToken(token.token, token.logprob, tokenizer, message);
    for (const TokenLogprob& other : token.top) {
      EncodeToken(other.token, other.logprob, tokenizer, *message.add_top());
    }
  }
}

// Keys are the names in SpeculationSummary::off_reason.
constexpr std::pair<std::string_view, v1::SpeculationOffReason> kOffReasons[] =
    {{"not_faster", v1::SPECULATION_OFF_REASON_NOT_WORTH_IT},
     {"no_table", v1::SPECULATION_OFF_REASON_NO_TABLE},
     {"no_drafter", v1::SPECULATION_OFF_REASON_NO_DRAFTER},
     {"asked", v1::SPECULATION_OFF_REASON_DISABLED},
     {"request", v1::SPECULATION_OFF_REASON_REQUEST}};

v1::SpeculationOffReason EncodeOffReason(std::string_view reason) {
  for (const auto& [name, encoded] : kOffReasons) {
    if (name == reason) return encoded;
  }
  return v1::SPECULATION_OFF_REASON_UNSPECIFIED;
}

void EncodeSpeculation(const Completion& completion, v1::Speculation& message) {
  const SpeculationSummary& summary = completion.speculation;
  message.set_rounds(completion.rounds);
  message.set_accepted_drafts(completion.accepted_drafts);
  message.set_off_rounds(summary.off_rounds);
  message.set_chain_rounds(summary.chain_rounds);
  message.set_tree_rounds(summary.tree_rounds);
  message.set_selected_nodes(summary.selected_nodes);
  message.set_promised_tokens(summary.promised_tokens);
  message.set_off_reason(EncodeOffReason(summary.off_reason));
}

void EncodeEnd(const Completion& completion, v1::GenerateComplete& message) {
  message.set_finish_reason(v1::FINISH_REASON_STOP);
  if (const auto* token = std::get_if<int32_t>(&completion.matched)) {
    message.set_matched_token_id(*token);
  } else if (const auto* text = std::get_if<std::string>(&completion.matched)) {
    message.set_matched_stop_str(*text);
  } else {
    message.set_finish_reason(v1::FINISH_REASON_LENGTH);
  }
  EncodeSpeculation(completion, *message.mutable_speculation());
  message.mutable_timing()->set_queue_seconds(completion.queue_seconds);
  message.mutable_timing()->set_first_token_seconds(
      completion.first_token_seconds);
  message.mutable_timing()->set_total_seconds(completion.total_seconds);
}

// The text of the output tokens that the client has already.
std::string ResumedText(const Request& request, const Tokenizer& tokenizer) {
  OutputText output(tokenizer, request.text, request.sampling.min_tokens);
  std::string text;
  for (const int32_t token : request.resumed) text += output.Push(token);
  return text;
}

// Deterministic: the same id whenever the same request is answered.
std::string CallId(const std::string& request, uint32_t choice, int number) {
  constexpr size_t kDigits = 24;
  const std::string digest =
      Sha256Hex(absl::StrCat(choice, "/", number, "/", request));
  return absl::StrCat("call_", digest.substr(0, kDigits));
}

}  // namespace

ResponseEncoder::ResponseEncoder(const Request& request,
                                 const AnswerOptions& options,
                                 ChoiceOptions choice)
    : options_(options),
      id_(request.id),
      choice_(request.choice),
      seed_(request.sampling.seed),
      logprobs_(request.sampling.logprobs) {
  usage_.set_prompt_tokens(static_cast<uint32_t>(request.prompt.size()));
  usage_.set_completion_tokens(static_cast<uint32_t>(request.resumed.size()));
  if (choice.output != nullptr) {
    parser_.emplace(std::move(choice.output));
    parser_->Push(ResumedText(request, options_.tokenizer));
  }
  if (choice.echo || request.sampling.prompt_logprobs) prompt_.emplace();
  if (!choice.echo) return;
  prompt_->mutable_token_ids()->Assign(request.prompt.begin(),
                                       request.prompt.end());
  prompt_->set_text(*std::move(choice.echo));
}

v1::GenerateResponse ResponseEncoder::Response() const {
  v1::GenerateResponse response;
  response.set_request_id(id_);
  response.set_model(options_.model);
  return response;
}

template <typename Message>
void ResponseEncoder::AddLogprobsAndPrompt(const TokenDelta& delta,
                                           Message& message) {
  if (logprobs_) {
    EncodeLogprobs(delta.tokens, options_.tokenizer,
                   *message.mutable_output_logprobs());
  }
  if (!prompt_) return;
  EncodeLogprobs(delta.prompt_logprobs, options_.tokenizer,
                 *prompt_->mutable_logprobs());
  *message.mutable_prompt() = *std::move(prompt_);
  prompt_.reset();
}

bool ResponseEncoder::HasOutput(const TokenDelta& delta) const {
  if (!delta.tokens.empty() || !delta.text.empty()) return true;
  return parser_ && parser_->held_bytes() > 0 && delta.end && delta.end->ok();
}

template <typename Message>
void ResponseEncoder::AddParsed(OutputDelta parsed, Message& message) const {
  message.mutable_text()->append(parsed.content);
  message.mutable_reasoning_content()->append(parsed.reasoning);
  for (OutputCall& call : parsed.calls) {
    v1::ToolCall& added = *message.add_tool_calls();
    added.set_id(CallId(id_, choice_, call.number));
    added.set_name(std::move(call.name));
    added.set_arguments_json(std::move(call.arguments_json));
  }
}

template <typename Message>
void ResponseEncoder::AddText(const TokenDelta& delta, Message& message) {
  if (!parser_) {
    message.mutable_text()->append(delta.text);
    return;
  }
  AddParsed(parser_->Push(delta.text), message);
  if (delta.end && delta.end->ok()) AddParsed(parser_->Finish(), message);
}

std::optional<v1::GenerateResponse> ResponseEncoder::Add(
    const TokenDelta& delta) {
  usage_.set_completion_tokens(usage_.completion_tokens() +
                               static_cast<uint32_t>(delta.tokens.size()));
  if (!options_.chunks) {
    Keep(delta);
    return std::nullopt;
  }
  v1::GenerateResponse response = Response();
  v1::GenerateChunk& chunk = *response.mutable_chunk();
  chunk.set_index(choice_);
  for (const EmittedToken& token : delta.tokens) {
    chunk.add_token_ids(token.token);
  }
  AddText(delta, chunk);
  AddLogprobsAndPrompt(delta, chunk);
  *chunk.mutable_usage() = usage_;
  return response;
}

void ResponseEncoder::Keep(const TokenDelta& delta) {
  for (const EmittedToken& token : delta.tokens) {
    kept_.add_output_ids(token.token);
  }
  AddText(delta, kept_);
  v1::GenerateComplete part;
  AddLogprobsAndPrompt(delta, part);
  BOLE_CHECK(part.AppendToString(&encoded_));
}

v1::GenerateResponse ResponseEncoder::Complete(const Completion& completion) {
  v1::GenerateResponse response = Response();
  v1::GenerateComplete& complete = *response.mutable_complete();
  complete = std::move(kept_);
  BOLE_CHECK(complete.MergeFromString(std::exchange(encoded_, {})));
  AddLogprobsAndPrompt(TokenDelta(), complete);
  EncodeEnd(completion, complete);
  complete.set_index(choice_);
  complete.set_seed(seed_);
  usage_.set_cached_tokens(static_cast<uint32_t>(completion.cached_tokens));
  *complete.mutable_usage() = usage_;
  return response;
}

size_t ResponseEncoder::kept_bytes() const {
  const size_t held = parser_ ? parser_->held_bytes() : 0;
  if (options_.chunks) return held;
  size_t calls = 0;
  for (const v1::ToolCall& call : kept_.tool_calls()) {
    calls += call.SpaceUsedLong();
  }
  return held + calls + kept_.output_ids().Capacity() * sizeof(uint32_t) +
         kept_.text().capacity() + kept_.reasoning_content().capacity() +
         encoded_.capacity();
}

}  // namespace bole
