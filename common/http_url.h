// URLs of HTTP servers.
#ifndef BOLE_COMMON_HTTP_URL_H_
#define BOLE_COMMON_HTTP_URL_H_

#include <string>

#include "absl/status/statusor.h"

namespace bole {

struct HttpUrl {
  bool tls = false;  // https
  std::string host;  // A name, or an address; IPv6 without its brackets.
  int port = 80;
  std::string path = "/";  // With the query.

  bool operator==(const HttpUrl&) const = default;
};

// "http://HOST[:PORT][/PATH]", or https. Without a port it is 80 or 443. An
// IPv6 address stands in brackets.
//
// INVALID_ARGUMENT, with the URL: it has another form. Users, passwords,
// fragments, and characters that would end a line of a request are refused too.
absl::StatusOr<HttpUrl> ParseHttpUrl(const std::string& url);

// Host and port as a request names them: "[::1]:8000".
std::string Authority(const HttpUrl& url);

}  // namespace bole

#endif  // BOLE_COMMON_HTTP_URL_H_
