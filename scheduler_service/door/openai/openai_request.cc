#include "scheduler_service/door/openai/openai_request.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/status_macros.h"
#include "scheduler_service/door/openai/chat_fields.h"
#include "scheduler_service/door/openai/json_fields.h"
#include "scheduler_service/door/openai/responses_input.h"
#include "scheduler_service/door/openai/sampling_fields.h"

namespace bole {
namespace {

absl::Status Absent(const char* field) {
  return BadField(field, "absent", "a value");
}

void ReadStream(JsonFields& fields, OpenAiRequest& request) {
  request.stream = fields.TakeBool("stream").value_or(false);
  request.message.set_stream(request.stream);
  const OrderedJson* options = fields.Take("stream_options");
  if (options == nullptr) return;
  if (!request.stream) {
    return fields.Fail(BadField("stream_options", "set", "only with stream"));
  }
  JsonFields inner(*options, "stream_options");
  request.include_usage = inner.TakeBool("include_usage").value_or(false);
  inner.AllowOnly("include_obfuscation", false);
  inner.AllowOnly("continuous_usage_stats", false);
  fields.Fail(inner.Finish());
}

// Reads the format of the answer: only text is offered.
void ReadFormat(JsonFields& fields, const char* name) {
  const OrderedJson* format = fields.Take(name);
  if (format == nullptr) return;
  JsonFields inner(*format, fields.PathOf(name));
  inner.AllowOnly("type", {"text"});
  fields.Fail(inner.Finish());
}

void ReadChoices(JsonFields& fields, v1::GenerateRequest& message) {
  if (const auto n = fields.TakeUint32("n")) message.set_n(*n);
}

void ReadTokenIds(JsonFields& fields, OpenAiRequest& request) {
  request.return_token_ids =
      fields.TakeBool("return_token_ids").value_or(false);
}

void ReadChatLogprobs(JsonFields& fields, v1::SamplingParams& params) {
  const bool logprobs = fields.TakeBool("logprobs").value_or(false);
  const std::optional<int32_t> top = fields.TakeInt32("top_logprobs");
  if (logprobs) return params.set_logprobs(top.value_or(0));
  if (top.value_or(0) != 0) {
    fields.Fail(BadField("top_logprobs", *top, "0 without logprobs: true"));
  }
}

absl::Status ReadChat(JsonFields& fields, OpenAiRequest& request) {
  v1::GenerateRequest& message = request.message;
  ReadSampling(fields, message);
  ReadStream(fields, request);
  ReadMaxTokens(fields, {"max_completion_tokens", "max_tokens"},
                *message.mutable_sampling_params());
  ReadChoices(fields, message);
  ReadChatLogprobs(fields, *message.mutable_sampling_params());
  ReadTokenIds(fields, request);
  ReadFormat(fields, "response_format");
  fields.AllowOnly("echo", false);
  const OrderedJson* modalities = fields.Take("modalities");
  if (modalities != nullptr && *modalities != OrderedJson{"text"}) {
    fields.Fail(UnimplementedField("modalities"));
  }
  v1::ChatInput& chat = *message.mutable_chat();
  chat.set_parse_output(true);
  ReadTools(fields, /*flat_tools=*/false, chat);
  const OrderedJson* messages = fields.TakeArray("messages");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (messages == nullptr) return Absent("messages");
  for (size_t i = 0; i < messages->size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(
        *chat.add_messages(),
        ReadChatMessage((*messages)[i], absl::StrCat("messages[", i, "]")));
  }
  return absl::OkStatus();
}

// Reads a text, an array with one text, or the token ids of one.
absl::Status ReadPrompt(const OrderedJson& prompt,
                        v1::GenerateRequest& message) {
  const char* allowed = "a string or an array of token ids";
  const OrderedJson* one = &prompt;
  if (prompt.is_array() && !prompt.empty() &&
      (prompt[0].is_string() || prompt[0].is_array())) {
    if (prompt.size() > 1) {
      return AboutField("prompt", absl::UnimplementedError(absl::StrCat(
                                      "prompt has ", prompt.size(),
                                      " texts; one is implemented")));
    }
    one = &prompt[0];
  }
  if (one->is_string()) {
    message.set_text(one->get<std::string>());
    return absl::OkStatus();
  }
  if (!one->is_array()) return WrongValue("prompt", *one, allowed);
  v1::TokenIds& tokens = *message.mutable_token_ids();
  for (size_t i = 0; i < one->size(); ++i) {
    const OrderedJson& id = (*one)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
      return WrongValue(absl::StrCat("prompt[", i, "]"), id, "a token id");
    }
    tokens.add_ids(id.get<uint32_t>());
  }
  return absl::OkStatus();
}

absl::Status ReadCompletions(JsonFields& fields, OpenAiRequest& request) {
  v1::GenerateRequest& message = request.message;
  ReadSampling(fields, message);
  ReadStream(fields, request);
  ReadMaxTokens(fields, {"max_tokens"}, *message.mutable_sampling_params());
  ReadChoices(fields, message);
  ReadTokenIds(fields, request);
  ReadFormat(fields, "response_format");
  if (const auto top = fields.TakeInt32("logprobs")) {
    message.mutable_sampling_params()->set_logprobs(*top);
  }
  message.set_echo(fields.TakeBool("echo").value_or(false));
  // Log probabilities of an echoed prompt are part of the answer's.
  if (message.echo() && message.sampling_params().logprobs() >= 0 &&
      message.sampling_params().has_logprobs() &&
      !message.has_prompt_logprobs()) {
    message.set_prompt_logprobs(message.sampling_params().logprobs());
  }
  const std::optional<uint32_t> best_of = fields.TakeUint32("best_of");
  if (best_of && *best_of != (message.has_n() ? message.n() : 1)) {
    fields.Fail(UnimplementedField("best_of"));
  }
  const OrderedJson* prompt = fields.Take("prompt");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (prompt == nullptr) return Absent("prompt");
  return ReadPrompt(*prompt, message);
}

// Reads `include` of a response: only log probabilities of the text are
// offered.
void ReadInclude(JsonFields& fields, v1::SamplingParams& params) {
  const OrderedJson* include = fields.TakeArray("include");
  for (size_t i = 0; include != nullptr && i < include->size(); ++i) {
    if ((*include)[i] != "message.output_text.logprobs") {
      fields.Fail(UnimplementedField(absl::StrCat("include[", i, "]")));
    } else if (!params.has_logprobs()) {
      params.set_logprobs(0);
    }
  }
}

// The fields of the request that the answer repeats, in the format of the API.
std::string RepeatedFields(const OrderedJson& body, const v1::ChatInput& chat) {
  OrderedJson repeated = {{"instructions", nullptr},
                          {"metadata", OrderedJson::object()},
                          {"parallel_tool_calls", true},
                          {"temperature", nullptr},
                          {"tool_choice", "auto"},
                          {"tools", OrderedJson::array()},
                          {"top_p", nullptr},
                          {"max_output_tokens", nullptr}};
  for (auto& [name, value] : repeated.items()) {
    const auto member = body.find(name);
    if (member == body.end() || member->is_null()) continue;
    if (name != "tools") value = *member;
  }
  for (const std::string& text : chat.tools_json()) {
    OrderedJson tool = OrderedJson::parse(text).at("function");
    tool["type"] = "function";
    tool["strict"] = false;
    if (!tool.contains("parameters")) tool["parameters"] = nullptr;
    repeated["tools"].push_back(std::move(tool));
  }
  return repeated.dump();
}

absl::Status ReadResponses(const OrderedJson& body, JsonFields& fields,
                           OpenAiRequest& request) {
  v1::GenerateRequest& message = request.message;
  v1::SamplingParams& params = *message.mutable_sampling_params();
  ReadSampling(fields, message);
  ReadStream(fields, request);
  ReadMaxTokens(fields, {"max_output_tokens"}, params);
  if (const auto top = fields.TakeInt32("top_logprobs")) {
    params.set_logprobs(*top);
  }
  ReadInclude(fields, params);
  fields.AllowOnly("background", false);
  fields.AllowOnly("truncation", {"disabled"});
  if (const OrderedJson* text = fields.Take("text")) {
    JsonFields inner(*text, "text");
    ReadFormat(inner, "format");
    inner.AllowOnly("verbosity", {"medium"});
    fields.Fail(inner.Finish());
  }
  v1::ChatInput& chat = *message.mutable_chat();
  chat.set_parse_output(true);
  ReadTools(fields, /*flat_tools=*/true, chat);
  if (auto instructions = fields.TakeString("instructions")) {
    v1::ChatMessage& system = *chat.add_messages();
    system.set_role("system");
    system.set_content(*std::move(instructions));
  }
  const OrderedJson* input = fields.Take("input");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (input == nullptr) return Absent("input");
  request.repeated_json = RepeatedFields(body, chat);
  return ReadResponsesInput(*input, "input", chat);
}

}  // namespace

absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiApi api,
                                                std::string_view body) {
  BOLE_ASSIGN_OR_RETURN(const OrderedJson json, ParseBody(body));
  OpenAiRequest request{.api = api};
  JsonFields fields(json, "");
  switch (api) {
    case OpenAiApi::kChat:
      BOLE_RETURN_IF_ERROR(ReadChat(fields, request));
      break;
    case OpenAiApi::kCompletions:
      BOLE_RETURN_IF_ERROR(ReadCompletions(fields, request));
      break;
    case OpenAiApi::kResponses:
      BOLE_RETURN_IF_ERROR(ReadResponses(json, fields, request));
      break;
  }
  return request;
}

}  // namespace bole
