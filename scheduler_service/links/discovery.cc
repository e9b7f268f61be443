#include "scheduler_service/links/discovery.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

struct HostAndPort {
  std::string host;  // Without brackets.
  std::string port;
};

bool IsIpv6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Whether a lookup would find nothing new.
bool IsAddress(const std::string& host) {
  in_addr four;
  return host == "localhost" || IsIpv6(host) ||
         inet_pton(AF_INET, host.c_str(), &four) == 1;
}

std::string Join(const std::string& host, const std::string& port) {
  return host.find(':') == host.npos ? absl::StrCat(host, ":", port)
                                     : absl::StrCat("[", host, "]:", port);
}

absl::StatusOr<HostAndPort> Parse(const std::string& name) {
  const auto refuse = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name,
        "' is not HOST:PORT, such as bole-workers:7101 or [::1]:7101, with a "
        "port from 1 to 65535"));
  };
  const size_t colon = name.rfind(':');
  if (colon == name.npos) return refuse();
  HostAndPort parsed{.host = name.substr(0, colon),
                     .port = name.substr(colon + 1)};
  int port = 0;
  if (!absl::SimpleAtoi(parsed.port, &port) || port < 1 || port > 65535) {
    return refuse();
  }
  std::string& host = parsed.host;
  const bool bracketed =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool has_colon = host.find(':') != host.npos;
  if (host.empty() || (bracketed ? !IsIpv6(host) : has_colon)) return refuse();
  return parsed;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LookUpHost(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), /*service=*/nullptr, &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "'", host, "' cannot be looked up: ", gai_strerror(error)));
  }
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text;
    if (one->ai_family != found->ai_family) continue;
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(),
                    /*serv=*/nullptr, /*servlen=*/0, NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  freeaddrinfo(found);
  return addresses;
}

absl::StatusOr<std::unique_ptr<Discovery>> Discovery::Start(
    DiscoveryOptions options, OnChange on_change, OnError on_error) {
  BOLE_ASSIGN_OR_RETURN(HostAndPort parsed, Parse(options.name));
  return std::unique_ptr<Discovery>(new Discovery(
      std::move(parsed.host), std::move(parsed.port), std::move(options),
      std::move(on_change), std::move(on_error)));
}

Discovery::Discovery(std::string host, std::string port,
                     DiscoveryOptions options, OnChange on_change,
                     OnError on_error)
    : host_(std::move(host)),
      port_(std::move(port)),
      options_(std::move(options)),
      on_change_(std::move(on_change)),
      on_error_(std::move(on_error)) {
  if (IsAddress(host_)) {
    on_change_({Join(host_, port_)});
  } else {
    thread_ = std::thread([this] { Run(); });
  }
}

Discovery::~Discovery() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Discovery::Run() {
  do {
    LookUp();
  } while (WaitForNext());
}

void Discovery::LookUp() {
  const absl::StatusOr<std::vector<std::string>> hosts =
      options_.look_up(host_);
  if (!hosts.ok()) {
    on_error_(hosts.status());
    return;
  }
  std::vector<std::string> addresses;
  for (const std::string& host : *hosts) addresses.push_back(Join(host, port_));
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()),
                  addresses.end());
  if (addresses.empty()) {
    on_error_(absl::UnavailableError(
        absl::StrCat("'", host_, "' stands for no address")));
    return;
  }
  if (addresses == last_) return;
  last_ = std::move(addresses);
  on_change_(last_);
}

bool Discovery::WaitForNext() {
  const auto next = std::chrono::steady_clock::now() + options_.interval;
  MutexLock lock(mutex_);
  while (!stopping_ && std::chrono::steady_clock::now() < next) {
    changed_.WaitUntil(mutex_, next);
  }
  return !stopping_;
}

}  // namespace bole
