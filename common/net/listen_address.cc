#include "common/net/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole {
namespace {

std::optional<int> ParsePort(std::string_view text) {
  int port = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || port < 0 || port > 65535) return std::nullopt;
  return port;
}

bool IsIpv6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsIpv4(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsLoopback(const std::string& host) {
  in6_addr six;
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&six);
  }
  in_addr four;
  return inet_pton(AF_INET, host.c_str(), &four) == 1 &&
         (ntohl(four.s_addr) >> 24) == IN_LOOPBACKNET;
}

}  // namespace

std::string ListenAddress::ToString() const {
  const bool is_ipv6 = host.find(':') != host.npos;
  return is_ipv6 ? absl::StrCat("[", host, "]:", port)
                 : absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text,
                                                 Reach reach) {
  const std::string quoted(text);
  const auto refuse = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("listen address '", quoted,
                     "' is not HOST:PORT, such as 127.0.0.1:50051 or [::1]:0"));
  };
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return refuse();
  const std::optional<int> port = ParsePort(text.substr(colon + 1));
  std::string host(text.substr(0, colon));
  if (!port) return refuse();

  if (host == "localhost") host = "127.0.0.1";
  const bool bracketed =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (bracketed ? !IsIpv6(host) : !IsIpv4(host)) return refuse();

  if (reach == Reach::kLoopback && !IsLoopback(host)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "listen address '", quoted,
        "' can be reached from other machines, and nothing says who of them "
        "may; this must be allowed explicitly"));
  }
  return ListenAddress{.host = std::move(host), .port = *port};
}

}  // namespace bole
