#include "clients/bench/openai_failure.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using absl::StatusCode;
using Json = nlohmann::json;

constexpr int kMaxErrorDepth = 8;
constexpr size_t kShownBytes = 200;

StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 400:
    case 413:
    case 422:
    case 431:
      return StatusCode::kInvalidArgument;
    case 401:
      return StatusCode::kUnauthenticated;
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 408:
    case 504:
      return StatusCode::kDeadlineExceeded;
    case 429:
      return StatusCode::kResourceExhausted;
    case 499:
      return StatusCode::kCancelled;
    case 500:
      return StatusCode::kInternal;
    case 501:
      return StatusCode::kUnimplemented;
    case 502:
    case 503:
      return StatusCode::kUnavailable;
    default:
      return StatusCode::kUnknown;
  }
}

// What an event's error is by its words, since it has no status. Codes come
// before types.
StatusCode CodeOfWords(const std::string& code, const std::string& type) {
  constexpr std::array<std::pair<std::string_view, StatusCode>, 10> kWords = {{
      {"cancelled", StatusCode::kCancelled},
      {"deadline", StatusCode::kDeadlineExceeded},
      {"draining", StatusCode::kUnavailable},
      {"no_worker", StatusCode::kUnavailable},
      {"workers_lost", StatusCode::kUnavailable},
      {"slow_reader", StatusCode::kResourceExhausted},
      {"unsupported", StatusCode::kUnimplemented},
      {"model_not_found", StatusCode::kNotFound},
      {"rate_limit_error", StatusCode::kResourceExhausted},
      {"invalid_request_error", StatusCode::kInvalidArgument},
  }};
  for (const std::string& said : {code, type}) {
    for (const auto& [word, meaning] : kWords) {
      if (said == word) return meaning;
    }
  }
  return StatusCode::kInternal;
}

// The string at `name`, or "".
std::string StringAt(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>()
                                                   : "";
}

CallEnd EndOf(StatusCode code, const std::string& message, std::string reason) {
  absl::AsciiStrToUpper(&reason);
  return {.status = absl::Status(code, message), .reason = std::move(reason)};
}

}  // namespace

CallEnd FailureOfAnswer(int http_status, std::string_view body) {
  const StatusCode code = CodeOf(http_status);
  const absl::StatusOr<Json> json = ParseJson(body, kMaxErrorDepth);
  if (json.ok() && json->is_object() && json->contains("error") &&
      json->at("error").is_object()) {
    const Json& error = json->at("error");
    const std::string word = StringAt(error, "code");
    return EndOf(word == "unsupported" ? StatusCode::kUnimplemented : code,
                 StringAt(error, "message"), word);
  }
  const std::string_view shown = body.substr(0, kShownBytes);
  return EndOf(code,
               absl::StrCat("HTTP status ", http_status, ": ",
                            absl::string_view(shown.data(), shown.size())),
               "");
}

CallEnd FailureOfEvent(const Json& error) {
  if (!error.is_object()) {
    return EndOf(StatusCode::kInternal,
                 error.is_string() ? error.get<std::string>() : error.dump(),
                 "");
  }
  // Some servers put the status that the answer would have had there.
  const auto code = error.find("code");
  if (code != error.end() && code->is_number_integer()) {
    return EndOf(CodeOf(code->get<int>()), StringAt(error, "message"), "");
  }
  const std::string word = StringAt(error, "code");
  return EndOf(CodeOfWords(word, StringAt(error, "type")),
               StringAt(error, "message"), word);
}

}  // namespace bole::bench
