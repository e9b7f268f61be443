// Converts requests of OpenAI's API to messages of bole.v1. README.md lists the
// fields.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_REQUEST_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_REQUEST_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/bole.pb.h"

namespace bole {

enum class OpenAiApi {
  kChat,         // POST /v1/chat/completions
  kCompletions,  // POST /v1/completions
  kResponses,    // POST /v1/responses
};

// The request in one body.
struct OpenAiRequest {
  OpenAiApi api = OpenAiApi::kChat;
  // Has no request_id. message.stream() equals `stream`.
  v1::GenerateRequest message = {};
  bool stream = false;            // Server-sent events instead of one body.
  bool include_usage = false;     // A chunk with the usage ends the stream.
  bool return_token_ids = false;  // The answer's choices have `token_ids`.
  // For kResponses, a JSON object with the request's fields that the answer
  // repeats.
  std::string repeated_json = {};
};

// Reads a body. It checks only the form: the JSON, the names and types of
// fields, that numbers fit their types, and whether a field is supported. The
// bounds on values are those of bole.v1, and are checked where its messages are
// decoded.
//
// INVALID_ARGUMENT for a field that is wrong, UNIMPLEMENTED for one that is not
// supported or not known. If the error is about a field, FieldOf() is its path
// in the body, which is OpenAI's `param` ("messages[2].content[0].type").
// COST: linear in the body.
absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiApi api,
                                                std::string_view body);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_REQUEST_H_
