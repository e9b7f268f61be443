#include "scheduler_service/door/grpc/request_codec.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "scheduler_service/door/grpc/chat_codec.h"
#include "scheduler_service/door/grpc/sampling_codec.h"

namespace bole {
namespace {

using Prompt = std::variant<std::vector<int32_t>, std::string>;

// One more than `capacity` at most: no copy of what is too long.
std::vector<int32_t> FirstIds(
    const google::protobuf::RepeatedField<uint32_t>& ids, int capacity) {
  const int num_read = std::min(ids.size(), capacity + 1);
  return {ids.begin(), ids.begin() + num_read};
}

absl::StatusOr<Prompt> DecodePrompt(const v1::GenerateRequest& message,
                                    const ModelText& text, int capacity) {
  switch (message.input_case()) {
    case v1::GenerateRequest::kTokenized:
      return FirstIds(message.tokenized().input_ids(), capacity);
    case v1::GenerateRequest::kText:
      return message.text();
    case v1::GenerateRequest::kChat:
      return RenderChat(message.chat(), text);
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "input is not set; allowed is one of tokenized, text and chat");
}

// How many texts, what the client has of them, and what it is to be told of the
// prompt.
absl::Status DecodeChoices(const v1::GenerateRequest& message, int capacity,
                           RequestBody& body) {
  body.num_choices = message.has_n() ? message.n() : 1;
  if (body.num_choices < 1 || body.num_choices > kMaxChoices) {
    return BadField("n", message.n(), absl::StrCat("[1, ", kMaxChoices, "]"));
  }
  const auto num_resumed = static_cast<uint32_t>(message.resume_size());
  if (num_resumed != 0 && num_resumed != body.num_choices) {
    return BadField("the number of resume", num_resumed,
                    absl::StrCat("0 or n, which is ", body.num_choices));
  }
  for (const v1::ResumedChoice& had : message.resume()) {
    body.resumed.push_back({.complete = had.complete()});
    if (had.complete()) continue;
    body.resumed.back().output = FirstIds(had.output_ids(), capacity);
  }
  body.echo = message.echo();
  if (!message.has_prompt_logprobs()) return absl::OkStatus();
  BOLE_RETURN_IF_ERROR(CheckAtMost("prompt_logprobs", message.prompt_logprobs(),
                                   kMaxRequestedLogprobs));
  body.sampling.prompt_logprobs =
      static_cast<int32_t>(message.prompt_logprobs());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RequestBody> DecodeGenerate(const v1::GenerateRequest& message,
                                           const ModelText& text,
                                           const WorkerDescription& worker) {
  RequestBody body;
  body.id = message.request_id();
  body.priority = message.priority();
  BOLE_ASSIGN_OR_RETURN(body.sampling,
                        DecodeSampling(message.sampling_params(), worker));
  BOLE_ASSIGN_OR_RETURN(body.text, DecodeTextParams(message.sampling_params()));
  BOLE_ASSIGN_OR_RETURN(
      body.prompt, DecodePrompt(message, text, ContextCapacity(worker.limits)));
  BOLE_RETURN_IF_ERROR(
      DecodeChoices(message, ContextCapacity(worker.limits), body));
  return body;
}

absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const v1::TokenizeRequest& message, const ModelText& text) {
  v1::TokenizeResponse response;
  switch (message.input_case()) {
    case v1::TokenizeRequest::kText:
      response.set_text(message.text());
      break;
    case v1::TokenizeRequest::kChat: {
      BOLE_ASSIGN_OR_RETURN(*response.mutable_text(),
                            RenderChat(message.chat(), text));
      break;
    }
    case v1::TokenizeRequest::INPUT_NOT_SET:
      return absl::InvalidArgumentError(
          "input is not set; allowed is one of text and chat");
  }
  const bool parse =
      !message.has_parse_special_tokens() || message.parse_special_tokens();
  BOLE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                        EncodeText(response.text(), *text.tokenizer,
                                   {.parse_special_tokens = parse}));
  response.mutable_input_ids()->Add(ids.begin(), ids.end());
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const v1::DetokenizeRequest& message, const ModelText& text) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("the number of ids", message.ids_size(), kMaxDetokenizeIds));
  const auto num_ids = static_cast<uint32_t>(text.tokenizer->num_ids());
  size_t num_bytes = 0;
  for (int i = 0; i < message.ids_size(); ++i) {
    const uint32_t id = message.ids(i);
    if (id >= num_ids) {
      return BadField(absl::StrCat("ids[", i, "]"), id,
                      absl::StrCat("[0, ", num_ids, ")"));
    }
    num_bytes += text.tokenizer->TokenBytes(static_cast<int32_t>(id)).size();
  }
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("the size of the text of ids", num_bytes, kMaxTextBytes));
  const std::vector<int32_t> ids(message.ids().begin(), message.ids().end());
  v1::DetokenizeResponse response;
  response.set_text(text.tokenizer->Decode(ids, message.skip_special_tokens()));
  return response;
}

}  // namespace bole
