// Requests and answers of the routes other than generation: models, tokens,
// version.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_MODELS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_MODELS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/bole.pb.h"

namespace bole {

// The answers of GET /v1/models and GET /v1/models/NAME. `created_unix_seconds`
// is when the server began to serve.
std::string ModelListBody(const v1::ListModelsResponse& models,
                          int64_t created_unix_seconds);
std::string ModelBody(const v1::GetModelInfoResponse& model,
                      int64_t created_unix_seconds);

// Read the bodies of POST /tokenize, which are {"prompt": "..."} or
// {"messages": [...]} as in vLLM, and of POST /detokenize: {"tokens": [...]}.
// Errors are those of ReadOpenAiRequest().
absl::StatusOr<v1::TokenizeRequest> ReadTokenizeRequest(std::string_view body);
absl::StatusOr<v1::DetokenizeRequest> ReadDetokenizeRequest(
    std::string_view body);

// {"count", "max_model_len", "tokens"}; `max_context` is that of the model, or
// 0 if it is not known.
std::string TokenizeBody(const v1::TokenizeResponse& response,
                         uint32_t max_context);
// {"prompt"}
std::string DetokenizeBody(const v1::DetokenizeResponse& response);

// The answer of GET /version: {"version"}.
std::string VersionBody(const v1::GetServerInfoResponse& info);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_MODELS_H_
