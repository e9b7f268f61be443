#include "scheduler_service/door/http/http_router.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/field_error.h"

namespace bole {
namespace {

constexpr HttpRoute kRoutes[] = {
    {HttpRouteName::kHealth, "GET", "/health", std::nullopt},
    {HttpRouteName::kReady, "GET", "/ready", std::nullopt},
    {HttpRouteName::kMetrics, "GET", "/metrics", Scope::kMetrics},
    {HttpRouteName::kVersion, "GET", "/version", Scope::kGenerate},
    {HttpRouteName::kModels, "GET", "/v1/models", Scope::kGenerate},
    {HttpRouteName::kModel, "GET", "/v1/models/{}", Scope::kGenerate},
    {HttpRouteName::kTokenize, "POST", "/tokenize", Scope::kGenerate},
    {HttpRouteName::kDetokenize, "POST", "/detokenize", Scope::kGenerate},
    {HttpRouteName::kChat, "POST", "/v1/chat/completions", Scope::kGenerate},
    {HttpRouteName::kCompletions, "POST", "/v1/completions", Scope::kGenerate},
    {HttpRouteName::kResponses, "POST", "/v1/responses", Scope::kGenerate},
};

constexpr std::string_view kParameter = "{}";

bool IsAt(const HttpRoute& route, std::string_view path) {
  if (!route.path.ends_with(kParameter)) return path == route.path;
  const size_t size = route.path.size() - kParameter.size();
  return path.size() > size && path.starts_with(route.path.substr(0, size));
}

bool Serves(const HttpRoute& route, const std::string& method) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

}  // namespace

std::span<const HttpRoute> HttpRoutes() { return kRoutes; }

std::variant<const HttpRoute*, HttpAnswer> FindRoute(const std::string& method,
                                                     const std::string& path) {
  std::string allowed;
  for (const HttpRoute& route : kRoutes) {
    if (!IsAt(route, path)) continue;
    if (Serves(route, method)) return &route;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ",
                    absl::string_view(route.method.data(), route.method.size()),
                    route.method == "GET" ? ", HEAD" : "");
  }
  if (allowed.empty()) {
    return HttpError(404, "not_found",
                     absl::StrCat("there is no ", Quoted(path)));
  }
  HttpAnswer answer = HttpError(405, "method_not_allowed",
                                absl::StrCat(Quoted(path), " takes ", allowed,
                                             ", and not ", Quoted(method)));
  answer.headers.emplace_back("Allow", allowed);
  return answer;
}

std::string ParameterOf(const HttpRoute& route, const std::string& path) {
  std::string decoded;
  for (size_t i = route.path.size() - kParameter.size(); i < path.size(); ++i) {
    const bool escaped = path[i] == '%' && i + 2 < path.size() &&
                         absl::ascii_isxdigit(path[i + 1]) &&
                         absl::ascii_isxdigit(path[i + 2]);
    if (escaped) {
      decoded += absl::HexStringToBytes(path.substr(i + 1, 2));
      i += 2;
    } else {
      decoded += path[i];
    }
  }
  return decoded;
}

}  // namespace bole
