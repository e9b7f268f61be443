#include "scheduler_service/door/http/model_answers.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/http/http_answers.h"
#include "scheduler_service/door/messages/info_codec.h"
#include "scheduler_service/door/messages/request_codec.h"
#include "scheduler_service/door/openai/openai_error.h"
#include "scheduler_service/door/openai/openai_models.h"
#include "scheduler_service/door/openai/openai_request.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {
namespace {

// The field that bole.v1 calls `ids` is `tokens` in the body.
Refusal InWordsOfBody(Refusal refusal) {
  constexpr char kIds[] = "ids";
  if (!absl::StartsWith(refusal.field, kIds)) return refusal;
  refusal.message = absl::StrReplaceAll(refusal.message, {{kIds, "tokens"}});
  refusal.field = absl::StrReplaceAll(refusal.field, {{kIds, "tokens"}});
  return refusal;
}

HttpAnswer AnswerOf(const absl::StatusOr<std::string>& body,
                    OpenAiApi api = OpenAiApi::kCompletions) {
  if (body.ok()) return {.body = *body};
  return ErrorAnswer(ToOpenAiError(RefusalOf(body.status()), api));
}

absl::StatusOr<std::string> BodyOfModel(const AskedModels& models,
                                        const std::string& name,
                                        int64_t created) {
  BOLE_ASSIGN_OR_RETURN(const AskedModel model, models.Find(name));
  return ModelBody(EncodeModelInfo(model), created);
}

absl::StatusOr<std::string> TokensOf(const AskedModels& models,
                                     const v1::TokenizeRequest& request) {
  BOLE_ASSIGN_OR_RETURN(const AskedModel model, models.Find(request.model()));
  BOLE_ASSIGN_OR_RETURN(const v1::TokenizeResponse response,
                        Tokenize(request, model.text));
  return TokenizeBody(response, EncodeModelInfo(model).max_context());
}

absl::StatusOr<std::string> TextOf(const AskedModels& models,
                                   const v1::DetokenizeRequest& request) {
  BOLE_ASSIGN_OR_RETURN(const AskedModel model, models.Find(request.model()));
  BOLE_ASSIGN_OR_RETURN(const v1::DetokenizeResponse response,
                        Detokenize(request, model.text));
  return DetokenizeBody(response);
}

}  // namespace

HttpAnswer AnswerModels(const AskedModels& models,
                        int64_t created_unix_seconds) {
  v1::ListModelsResponse all;
  for (const AskedModel& model : models.All()) {
    *all.add_models() = EncodeModelInfo(model);
  }
  return {.body = ModelListBody(all, created_unix_seconds)};
}

HttpAnswer AnswerModel(const AskedModels& models, const std::string& name,
                       int64_t created_unix_seconds) {
  return AnswerOf(BodyOfModel(models, name, created_unix_seconds));
}

HttpAnswer AnswerTokenize(const AskedModels& models, std::string_view body) {
  const absl::StatusOr<v1::TokenizeRequest> request = ReadTokenizeRequest(body);
  if (!request.ok()) return AnswerOf(request.status());
  return AnswerOf(TokensOf(models, *request), request->has_chat()
                                                  ? OpenAiApi::kChat
                                                  : OpenAiApi::kCompletions);
}

HttpAnswer AnswerDetokenize(const AskedModels& models, std::string_view body) {
  const absl::StatusOr<v1::DetokenizeRequest> request =
      ReadDetokenizeRequest(body);
  if (!request.ok()) return AnswerOf(request.status());
  const absl::StatusOr<std::string> text = TextOf(models, *request);
  if (text.ok()) return {.body = *text};
  return ErrorAnswer(ToOpenAiError(InWordsOfBody(RefusalOf(text.status()))));
}

}  // namespace bole
