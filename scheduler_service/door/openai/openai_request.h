// Requests of OpenAI's API as messages of bole.v1. README.md has the fields.
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

// What one body asks for.
struct OpenAiRequest {
  OpenAiApi api = OpenAiApi::kChat;
  // Without a request_id. message.stream() is `stream`.
  v1::GenerateRequest message = {};
  bool stream = false;            // Server-sent events, or else one body.
  bool include_usage = false;     // A chunk with the usage ends the stream.
  bool return_token_ids = false;  // Choices of the answer have `token_ids`.
  // Of kResponses: what the answer repeats of the request, a JSON object.
  std::string repeated_json = {};
};

// Reads a body. What it checks is the form: the JSON, the names and types of
// fields, that numbers fit, and whether a field is offered. The bounds on
// values are those of bole.v1, and are checked where its messages are read.
//
// INVALID_ARGUMENT for a field that is wrong, UNIMPLEMENTED for one that is not
// offered or not known; FieldOf() is its path in the body, OpenAI's `param`
// ("messages[2].content[0].type"), if the error is about a field.
// COST: linear in the body.
absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiApi api,
                                                std::string_view body);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_REQUEST_H_
