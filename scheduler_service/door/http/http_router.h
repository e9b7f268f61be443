// The routes of the HTTP door, as a table.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ROUTER_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ROUTER_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "common/net/http/http_message.h"
#include "scheduler_service/door/identity.h"

namespace bole {

enum class HttpRouteName {
  kHealth,
  kReady,
  kMetrics,
  kVersion,
  kModels,
  kModel,
  kTokenize,
  kDetokenize,
  kChat,
  kCompletions,
  kResponses,
};

struct HttpRoute {
  HttpRouteName name;
  std::string_view method;     // HEAD is served where GET is.
  std::string_view path;       // If it ends in "/{}", a parameter is there.
  std::optional<Scope> scope;  // None: open to everybody.
};

// All routes.
std::span<const HttpRoute> HttpRoutes();

// The route of a request, or why it has none: 404, or 405 with Allow.
std::variant<const HttpRoute*, HttpAnswer> FindRoute(const std::string& method,
                                                     const std::string& path);

// Returns the part of the path in place of "{}", percent-decoded. REQUIRES: the
// path is one of the route, which has a parameter.
std::string ParameterOf(const HttpRoute& route, const std::string& path);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ROUTER_H_
