#include "clients/bench/http_get.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "civetweb.h"
#include "clients/bench/http_url.h"
#include "common/status_macros.h"

namespace bole::bench {

absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    const HttpGetOptions& options) {
  BOLE_ASSIGN_OR_RETURN(const HttpUrl parsed, ParseHttpUrl(url));
  if (parsed.tls) {
    return absl::UnimplementedError(
        absl::StrCat(url, ": https is not implemented"));
  }
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
            "GET %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n",
            parsed.path.c_str(), Authority(parsed).c_str(),
            options.authorization.empty()
                ? ""
                : absl::StrCat("Authorization: ", options.authorization, "\r\n")
                      .c_str());
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
