#include "scheduler_service/door/messages/request_codec.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "scheduler_service/door/messages/chat_codec.h"
#include "scheduler_service/door/messages/sampling_codec.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {
namespace {

// Returns at most one id more than `capacity`, so that an input that is too
// long is not copied.
std::vector<int32_t> FirstIds(
    const google::protobuf::RepeatedField<uint32_t>& ids, int capacity) {
  const int num_read = std::min(ids.size(), capacity + 1);
  return {ids.begin(), ids.begin() + num_read};
}

absl::Status NotSet(const char* allowed) {
  return AboutField("input",
                    absl::InvalidArgumentError(absl::StrCat(
                        "input is not set; allowed is one of ", allowed)));
}

absl::Status DecodePrompt(const v1::GenerateRequest& message,
                          const ModelText& text, int capacity,
                          RequestBody& body) {
  switch (message.input_case()) {
    case v1::GenerateRequest::kTokenIds:
      body.prompt = FirstIds(message.token_ids().ids(), capacity);
      return absl::OkStatus();
    case v1::GenerateRequest::kText:
      body.prompt = message.text();
      return absl::OkStatus();
    case v1::GenerateRequest::kChat: {
      BOLE_ASSIGN_OR_RETURN(RenderedChat chat,
                            RenderChat(message.chat(), text));
      body.prompt = std::move(chat.text);
      body.output = std::move(chat.output);
      return absl::OkStatus();
    }
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return NotSet("token_ids, text and chat");
}

// Refuses what is not offered yet.
absl::Status CheckOffered(const v1::GenerateRequest& message) {
  switch (message.constraint_case()) {
    case v1::GenerateRequest::kJsonSchema:
      return UnimplementedField("json_schema");
    case v1::GenerateRequest::kRegex:
      return UnimplementedField("regex");
    case v1::GenerateRequest::kChoice:
      return UnimplementedField("choice");
    case v1::GenerateRequest::kGrammar:
      return UnimplementedField("grammar");
    case v1::GenerateRequest::CONSTRAINT_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<SpeculationMode> DecodeMode(v1::SpeculationMode mode) {
  switch (mode) {
    case v1::SPECULATION_MODE_OFF:
      return SpeculationMode::kOff;
    case v1::SPECULATION_MODE_CHAIN:
      return SpeculationMode::kChain;
    case v1::SPECULATION_MODE_UNSPECIFIED:
    case v1::SPECULATION_MODE_TREE:
      return SpeculationMode::kTree;
    default:
      return BadField("speculation.mode", static_cast<int>(mode),
                      "a SpeculationMode");
  }
}

absl::Status CheckBound(const char* field, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return BadField(field, value, absl::StrCat("[1, ", max, "]"));
}

// Returns nothing if the override bounds nothing.
absl::StatusOr<std::optional<SpeculationOverride>> DecodeOverride(
    const v1::SpeculationOverride& message) {
  SpeculationOverride bounds;
  BOLE_ASSIGN_OR_RETURN(bounds.mode, DecodeMode(message.mode()));
  if (message.has_nodes()) {
    BOLE_RETURN_IF_ERROR(
        CheckBound("speculation.nodes", message.nodes(), kMaxOverrideNodes));
    bounds.max_nodes = static_cast<int>(message.nodes());
  }
  if (message.has_depth()) {
    BOLE_RETURN_IF_ERROR(
        CheckBound("speculation.depth", message.depth(), kMaxOverrideDepth));
    bounds.max_depth = static_cast<int>(message.depth());
  }
  if (bounds == SpeculationOverride()) return std::nullopt;
  return bounds;
}

absl::StatusOr<LatencyTargets> DecodeTargets(
    const v1::LatencyTargets& message) {
  LatencyTargets targets;
  if (message.has_time_to_first_token_ms()) {
    const uint32_t value = message.time_to_first_token_ms();
    BOLE_RETURN_IF_ERROR(
        CheckBound("targets.time_to_first_token_ms", value, kMaxTargetMs));
    targets.time_to_first_token = std::chrono::milliseconds(value);
  }
  if (message.has_time_per_output_token_ms()) {
    const uint32_t value = message.time_per_output_token_ms();
    BOLE_RETURN_IF_ERROR(
        CheckBound("targets.time_per_output_token_ms", value, kMaxTargetMs));
    targets.time_per_output_token = std::chrono::milliseconds(value);
  }
  return targets;
}

// Decodes the number of choices, what the client has of them already, and what
// the answer is to include of the prompt.
absl::Status DecodeChoices(const v1::GenerateRequest& message, int capacity,
                           RequestBody& body) {
  body.num_choices = message.has_n() ? message.n() : 1;
  if (body.num_choices < 1 || body.num_choices > kMaxChoices) {
    return BadField("n", message.n(), absl::StrCat("[1, ", kMaxChoices, "]"));
  }
  const auto num_resumed = static_cast<uint32_t>(message.resume_size());
  if (num_resumed != 0 && num_resumed != body.num_choices) {
    return BadField(NumberOf("resume"), num_resumed,
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
  BOLE_RETURN_IF_ERROR(CheckOffered(message));
  RequestBody body;
  body.id = message.request_id();
  body.priority = message.priority();
  BOLE_RETURN_IF_ERROR(CheckAtMost(
      SizeOf("cache_salt"), message.cache_salt().size(), kMaxCacheSaltBytes));
  body.cache_salt = message.cache_salt();
  BOLE_ASSIGN_OR_RETURN(body.speculation,
                        DecodeOverride(message.speculation()));
  BOLE_ASSIGN_OR_RETURN(body.targets, DecodeTargets(message.targets()));
  BOLE_ASSIGN_OR_RETURN(body.sampling,
                        DecodeSampling(message.sampling_params(), worker));
  BOLE_ASSIGN_OR_RETURN(body.text, DecodeTextParams(message.sampling_params()));
  BOLE_RETURN_IF_ERROR(
      DecodePrompt(message, text, ContextCapacity(worker.limits), body));
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
      BOLE_ASSIGN_OR_RETURN(RenderedChat chat,
                            RenderChat(message.chat(), text));
      response.set_text(std::move(chat.text));
      break;
    }
    case v1::TokenizeRequest::INPUT_NOT_SET:
      return NotSet("text and chat");
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
      CheckAtMost(NumberOf("ids"), message.ids_size(), kMaxDetokenizeIds));
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
  BOLE_RETURN_IF_ERROR(CheckAtMost({"ids", "the size of the text of ids"},
                                   num_bytes, kMaxTextBytes));
  const std::vector<int32_t> ids(message.ids().begin(), message.ids().end());
  v1::DetokenizeResponse response;
  response.set_text(text.tokenizer->Decode(ids, message.skip_special_tokens()));
  return response;
}

}  // namespace bole
