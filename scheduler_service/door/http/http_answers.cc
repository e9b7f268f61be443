#include "scheduler_service/door/http/http_answers.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace bole {

HttpAnswer WithId(HttpAnswer answer, const std::string& id) {
  answer.headers.emplace_back("X-Request-Id", id);
  return answer;
}

HttpAnswer ErrorAnswer(const OpenAiError& error) {
  HttpAnswer answer{.status = error.status, .body = error.Body()};
  if (error.retry_after) {
    const auto seconds =
        std::chrono::ceil<std::chrono::seconds>(*error.retry_after);
    answer.headers.emplace_back(
        "Retry-After",
        absl::StrCat(std::max<int64_t>(1, int64_t{seconds.count()})));
  }
  if (error.status == 401) {
    answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return answer;
}

}  // namespace bole
