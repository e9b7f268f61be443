// Answers that all routes have in common.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ANSWERS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ANSWERS_H_

#include <string>

#include "common/net/http/http_message.h"
#include "scheduler_service/door/openai/openai_error.h"

namespace bole {

// The answer, with X-Request-Id.
HttpAnswer WithId(HttpAnswer answer, const std::string& id);

// With Retry-After in whole seconds, at least 1, if the error tells a time, and
// with WWW-Authenticate where a token is wanted.
HttpAnswer ErrorAnswer(const OpenAiError& error);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ANSWERS_H_
