// Errors in the format of OpenAI's API. README.md has the table.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_ERROR_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_ERROR_H_

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "scheduler_service/door/openai/openai_request.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

struct OpenAiError {
  int status;        // HTTP status code.
  std::string type;  // "invalid_request_error"
  std::string code;  // "model_not_found"
  std::string message;
  std::string param = {};  // The field that is wrong; empty: none.
  // For the header Retry-After; absent if waiting does not help.
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;

  // {"error": {"message", "type", "param", "code"}}
  std::string Body() const;
};

// The error of a call that is not admitted. `param` and the message name a
// wrong field of bole.v1 as `api` calls it.
OpenAiError ToOpenAiError(const Refusal& refusal,
                          OpenAiApi api = OpenAiApi::kChat);

// The error of a call that failed after it was admitted; `failure` is what
// ResponseSink::End() got.
// REQUIRES: `failure` is not OK.
OpenAiError ToOpenAiError(const absl::Status& failure);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_ERROR_H_
