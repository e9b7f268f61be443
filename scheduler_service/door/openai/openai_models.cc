#include "scheduler_service/door/openai/openai_models.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/status_macros.h"
#include "scheduler_service/door/openai/answer_writer.h"
#include "scheduler_service/door/openai/chat_fields.h"
#include "scheduler_service/door/openai/json_fields.h"

namespace bole {
namespace {

AnswerJson ModelJson(const v1::GetModelInfoResponse& model, int64_t created) {
  AnswerJson json = {{"id", model.model()},
                     {"object", "model"},
                     {"created", created},
                     {"owned_by", "bole"}};
  // These are known once a worker has connected.
  if (model.max_context() != 0) json["max_model_len"] = model.max_context();
  if (model.vocab_size() != 0) json["vocab_size"] = model.vocab_size();
  return json;
}

}  // namespace

std::string ModelListBody(const v1::ListModelsResponse& models,
                          int64_t created_unix_seconds) {
  AnswerJson json = {{"object", "list"}, {"data", AnswerJson::array()}};
  for (const v1::GetModelInfoResponse& model : models.models()) {
    json["data"].push_back(ModelJson(model, created_unix_seconds));
  }
  return ToText(json);
}

std::string ModelBody(const v1::GetModelInfoResponse& model,
                      int64_t created_unix_seconds) {
  return ToText(ModelJson(model, created_unix_seconds));
}

absl::StatusOr<v1::TokenizeRequest> ReadTokenizeRequest(std::string_view body) {
  BOLE_ASSIGN_OR_RETURN(const OrderedJson json, ParseBody(body));
  v1::TokenizeRequest request;
  JsonFields fields(json, "");
  request.set_model(fields.TakeString("model").value_or(""));
  if (const auto parse = fields.TakeBool("parse_special_tokens")) {
    request.set_parse_special_tokens(*parse);
  }
  // No tokenizer of a served model adds any.
  fields.Ignore({"add_special_tokens"});
  const std::optional<std::string> prompt = fields.TakeString("prompt");
  const OrderedJson* messages = fields.TakeArray("messages");
  v1::ChatInput chat;
  if (messages != nullptr) ReadTools(fields, /*flat_tools=*/false, chat);
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (prompt.has_value() == (messages != nullptr)) {
    return BadField("prompt", prompt ? "set beside messages" : "absent",
                    "one of prompt and messages");
  }
  if (prompt) {
    request.set_text(*prompt);
    return request;
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(
        *chat.add_messages(),
        ReadChatMessage((*messages)[i], absl::StrCat("messages[", i, "]")));
  }
  *request.mutable_chat() = std::move(chat);
  return request;
}

absl::StatusOr<v1::DetokenizeRequest> ReadDetokenizeRequest(
    std::string_view body) {
  BOLE_ASSIGN_OR_RETURN(const OrderedJson json, ParseBody(body));
  v1::DetokenizeRequest request;
  JsonFields fields(json, "");
  request.set_model(fields.TakeString("model").value_or(""));
  if (const auto skip = fields.TakeBool("skip_special_tokens")) {
    request.set_skip_special_tokens(*skip);
  }
  const OrderedJson* tokens = fields.TakeArray("tokens");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (tokens == nullptr) return BadField("tokens", "absent", "an array");
  for (size_t i = 0; i < tokens->size(); ++i) {
    const OrderedJson& id = (*tokens)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
      return WrongValue(absl::StrCat("tokens[", i, "]"), id, "a token id");
    }
    request.add_ids(id.get<uint32_t>());
  }
  return request;
}

std::string TokenizeBody(const v1::TokenizeResponse& response,
                         uint32_t max_context) {
  AnswerJson json = {{"count", response.input_ids_size()}};
  if (max_context != 0) json["max_model_len"] = max_context;
  json["tokens"] = AnswerJson::array();
  for (const uint32_t id : response.input_ids()) json["tokens"].push_back(id);
  return ToText(json);
}

std::string DetokenizeBody(const v1::DetokenizeResponse& response) {
  return ToText({{"prompt", response.text()}});
}

std::string VersionBody(const v1::GetServerInfoResponse& info) {
  return ToText({{"version", info.version()}});
}

}  // namespace bole
