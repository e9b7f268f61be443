#include "scheduler_service/door/openai/openai_answer.h"

#include <cmath>
#include <utility>

#include "common/version.h"
#include "scheduler_service/door/openai/answer_writer.h"

namespace bole {
namespace {

constexpr double kLeastLogprob = -9999;

std::unique_ptr<OpenAiAnswer::Writer> MakeWriter(const OpenAiRequest& request,
                                                 AnswerHead head) {
  switch (request.api) {
    case OpenAiApi::kChat:
      break;
    case OpenAiApi::kCompletions:
      return MakeCompletionsWriter(request, std::move(head));
    case OpenAiApi::kResponses:
      return MakeResponsesWriter(request, std::move(head));
  }
  return MakeChatWriter(request, std::move(head));
}

AnswerJson BytesJson(const std::string& bytes) {
  AnswerJson json = AnswerJson::array();
  for (const char c : bytes) json.push_back(static_cast<unsigned char>(c));
  return json;
}

AnswerJson IdsJson(const google::protobuf::RepeatedField<uint32_t>& ids) {
  AnswerJson json = AnswerJson::array();
  for (const uint32_t id : ids) json.push_back(id);
  return json;
}

// Converts a TokenLogprob or a TopLogprob.
template <typename Message>
AnswerJson TokenJson(const Message& token) {
  return {{"token", token.text()},
          {"logprob", FiniteLogprob(token.logprob())},
          {"bytes", BytesJson(token.bytes())}};
}

template <typename Message>
AnswerJson PromptTokenJson(const Message& token) {
  return {{"logprob", FiniteLogprob(token.logprob())},
          {"decoded_token", token.text()}};
}

}  // namespace

OpenAiAnswer::OpenAiAnswer(const OpenAiRequest& request, std::string id,
                           int64_t created_unix_seconds)
    : writer_(MakeWriter(
          request, {.id = std::move(id), .created = created_unix_seconds})) {}

OpenAiAnswer::~OpenAiAnswer() = default;

void OpenAiAnswer::AppendEvents(const v1::GenerateResponse& response,
                                std::string& out) {
  writer_->AppendEvents(response, out);
}

void OpenAiAnswer::AppendEnd(std::string& out) { writer_->AppendEnd(out); }

void OpenAiAnswer::AppendError(const OpenAiError& error, std::string& out) {
  writer_->AppendError(error, out);
}

void OpenAiAnswer::Add(const v1::GenerateResponse& response) {
  writer_->Add(response);
}

std::string OpenAiAnswer::Whole() const { return writer_->Whole(); }

void OpenAiAnswer::Writer::AppendError(const OpenAiError& error,
                                       std::string& out) {
  out.append("data: ").append(error.Body()).append("\n\n");
}

std::string ToText(const AnswerJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   AnswerJson::error_handler_t::replace);
}

void ObjectHead::set_model(const std::string& model) {
  if (!begin_.empty() && model == model_) return;
  model_ = model;
  begin_ = "data: " + ToText(ToJson());
  begin_.back() = ',';
}

AnswerJson ObjectHead::ToJson() const {
  return {{"id", head_.id},
          {"object", object_},
          {"created", head_.created},
          {"model", model_},
          {"system_fingerprint", std::string("bole-") + kVersion}};
}

void ObjectHead::AppendEvent(const AnswerJson& members,
                             std::string& out) const {
  // Skip the opening brace: the head already has it.
  out.append(begin_).append(ToText(members), 1).append("\n\n");
}

double FiniteLogprob(float logprob) {
  return std::isfinite(logprob) ? logprob : kLeastLogprob;
}

AnswerJson TokenIdsJson(const v1::GenerateChunk& chunk) {
  return IdsJson(chunk.token_ids());
}

AnswerJson TokenIdsJson(const v1::GenerateComplete& complete) {
  return IdsJson(complete.output_ids());
}

AnswerJson TokenLogprobsJson(const TokenLogprobs& logprobs) {
  AnswerJson all = AnswerJson::array();
  for (const v1::TokenLogprob& token : logprobs) {
    AnswerJson json = TokenJson(token);
    json["top_logprobs"] = AnswerJson::array();
    for (const v1::TopLogprob& other : token.top()) {
      json["top_logprobs"].push_back(TokenJson(other));
    }
    all.push_back(std::move(json));
  }
  return all;
}

AnswerJson PromptLogprobsJson(const v1::PromptOutput& prompt) {
  AnswerJson all = AnswerJson::array({nullptr});
  for (const v1::TokenLogprob& token : prompt.logprobs()) {
    AnswerJson json = {
        {std::to_string(token.token_id()), PromptTokenJson(token)}};
    for (const v1::TopLogprob& other : token.top()) {
      json[std::to_string(other.token_id())] = PromptTokenJson(other);
    }
    all.push_back(std::move(json));
  }
  return all;
}

uint32_t UsageSum::prompt_tokens() const {
  return choices_.empty() ? 0 : choices_.begin()->second.prompt_tokens();
}

uint32_t UsageSum::completion_tokens() const {
  uint32_t sum = 0;
  for (const auto& [choice, usage] : choices_) sum += usage.completion_tokens();
  return sum;
}

uint32_t UsageSum::cached_tokens() const {
  return choices_.empty() ? 0 : choices_.begin()->second.cached_tokens();
}

AnswerJson UsageSum::ToJson() const {
  return {{"prompt_tokens", prompt_tokens()},
          {"completion_tokens", completion_tokens()},
          {"total_tokens", prompt_tokens() + completion_tokens()},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens()}}}};
}

const char* FinishReasonName(v1::FinishReason reason) {
  return reason == v1::FINISH_REASON_LENGTH ? "length" : "stop";
}

AnswerJson StopReasonJson(const v1::GenerateComplete& complete) {
  switch (complete.matched_stop_case()) {
    case v1::GenerateComplete::kMatchedTokenId:
      return complete.matched_token_id();
    case v1::GenerateComplete::kMatchedStopStr:
      return complete.matched_stop_str();
    case v1::GenerateComplete::MATCHED_STOP_NOT_SET:
      break;
  }
  return nullptr;
}

}  // namespace bole
