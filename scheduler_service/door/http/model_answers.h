// Answers of the routes other than generation: models and tokens.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_HTTP_MODEL_ANSWERS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_HTTP_MODEL_ANSWERS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/net/http/http_message.h"
#include "scheduler_service/door/asked_models.h"

namespace bole {

// `created_unix_seconds` is when the server began to serve.
HttpAnswer AnswerModels(const AskedModels& models,
                        int64_t created_unix_seconds);
HttpAnswer AnswerModel(const AskedModels& models, const std::string& name,
                       int64_t created_unix_seconds);

// COST: that of Tokenize() and Detokenize() in request_codec.h.
HttpAnswer AnswerTokenize(const AskedModels& models, std::string_view body);
HttpAnswer AnswerDetokenize(const AskedModels& models, std::string_view body);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_HTTP_MODEL_ANSWERS_H_
