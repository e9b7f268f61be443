// Answers that all routes have in common.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ANSWERS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ANSWERS_H_

#include <string>

#include "common/net/http/http_message.h"
#include "scheduler_service/door/openai/openai_error.h"

namespace bole {

// Adds X-Request-Id to the answer.
HttpAnswer WithId(HttpAnswer answer, const std::string& id);

// The answer to an error. It has Retry-After in whole seconds, at least 1, if
// the error says when to retry, and WWW-Authenticate if a token is needed.
HttpAnswer ErrorAnswer(const OpenAiError& error);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ANSWERS_H_
