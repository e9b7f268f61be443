#include "clients/bench/http_get.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "civetweb.h"
#include "common/status_macros.h"

namespace bole::bench {
namespace {

struct Url {
  std::string host;
  int port = 80;
  std::string path;
};

absl::StatusOr<Url> ParseUrl(const std::string& url) {
  const std::string scheme = "http://";
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "\"", url,
      "\" is no address of metrics; write http://HOST:PORT/metrics"));
  if (!url.starts_with(scheme)) return wrong;
  const size_t slash = url.find('/', scheme.size());
  Url parsed;
  parsed.host = url.substr(scheme.size(), slash == std::string::npos
                                              ? std::string::npos
                                              : slash - scheme.size());
  parsed.path = slash == std::string::npos ? "/" : url.substr(slash);
  const size_t colon = parsed.host.rfind(':');
  if (colon != std::string::npos) {
    constexpr int kMaxPort = 65535;
    if (!absl::SimpleAtoi(parsed.host.substr(colon + 1), &parsed.port) ||
        parsed.port < 1 || parsed.port > kMaxPort) {
      return wrong;
    }
    parsed.host.resize(colon);
  }
  // What is put into the request must not end it.
  const bool clean = url.find_first_of(" \r\n\t") == std::string::npos;
  return clean && !parsed.host.empty() ? absl::StatusOr<Url>(parsed) : wrong;
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const std::string& url) {
  BOLE_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  constexpr int kTimeoutMs = 5000;
  constexpr int kOk = 200;
  char error[256] = "";
  const std::unique_ptr<mg_connection, void (*)(mg_connection*)> connection(
      mg_connect_client(parsed.host.c_str(), parsed.port, /*use_ssl=*/0, error,
                        sizeof(error)),
      [](mg_connection* open) {
        if (open != nullptr) mg_close_connection(open);
      });
  if (connection == nullptr) {
    return absl::UnavailableError(absl::StrCat(url, ": ", error));
  }
  mg_printf(connection.get(),
            "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
            parsed.path.c_str(), parsed.host.c_str());
  if (mg_get_response(connection.get(), error, sizeof(error), kTimeoutMs) < 0) {
    return absl::UnavailableError(absl::StrCat(url, ": ", error));
  }
  const int code = mg_get_response_info(connection.get())->status_code;
  if (code != kOk) {
    return absl::FailedPreconditionError(
        absl::StrCat(url, " answers with HTTP status ", code));
  }
  std::string body;
  char buffer[1 << 14];
  int size = 0;
  while ((size = mg_read(connection.get(), buffer, sizeof(buffer))) > 0) {
    body.append(buffer, static_cast<size_t>(size));
  }
  return body;
}

}  // namespace bole::bench
