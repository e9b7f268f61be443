#include "common/http_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace bole {
namespace {

constexpr int kHttpPort = 80;
constexpr int kHttpsPort = 443;

bool IsHostCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '-' || c == '_';
}

bool IsPathCharacter(char c) { return c > ' ' && c <= '~' && c != '#'; }

// Takes the host from the front of `rest`. Returns whether there is one.
bool TakeHost(absl::string_view& rest, std::string& host) {
  if (!absl::ConsumePrefix(&rest, "[")) {
    const auto* const end =
        std::find_if_not(rest.begin(), rest.end(), IsHostCharacter);
    host.assign(rest.begin(), end);
    rest.remove_prefix(host.size());
    return !host.empty();
  }
  const size_t end = rest.find(']');
  if (end == absl::string_view::npos) return false;
  host = std::string(rest.substr(0, end));
  rest.remove_prefix(end + 1);
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Takes ":PORT", if it is there. Returns whether it is a port.
bool TakePort(absl::string_view& rest, int& port) {
  if (!absl::ConsumePrefix(&rest, ":")) return true;
  constexpr int kMaxPort = 65535;
  const size_t end = std::min(rest.find('/'), rest.size());
  const absl::string_view digits = rest.substr(0, end);
  rest.remove_prefix(end);
  return std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(digits, &port) && port >= 1 && port <= kMaxPort;
}

}  // namespace

absl::StatusOr<HttpUrl> ParseHttpUrl(const std::string& url) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "\"", url, "\" is no URL of a server; write http://HOST:PORT/PATH"));
  absl::string_view rest = url;
  HttpUrl parsed;
  parsed.tls = absl::ConsumePrefix(&rest, "https://");
  if (!parsed.tls && !absl::ConsumePrefix(&rest, "http://")) return wrong;
  parsed.port = parsed.tls ? kHttpsPort : kHttpPort;
  if (!TakeHost(rest, parsed.host) || !TakePort(rest, parsed.port)) {
    return wrong;
  }
  if (rest.empty()) return parsed;
  if (rest[0] != '/' ||
      !std::all_of(rest.begin(), rest.end(), IsPathCharacter)) {
    return wrong;
  }
  parsed.path = std::string(rest);
  return parsed;
}

std::string Authority(const HttpUrl& url) {
  const bool ipv6 = url.host.find(':') != std::string::npos;
  return absl::StrCat(ipv6 ? "[" : "", url.host, ipv6 ? "]" : "", ":",
                      url.port);
}

}  // namespace bole
