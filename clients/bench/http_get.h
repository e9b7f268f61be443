// A page over HTTP: metrics, or what a server says of itself.
#ifndef BOLE_CLIENTS_BENCH_HTTP_GET_H_
#define BOLE_CLIENTS_BENCH_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"

namespace bole::bench {

struct HttpGetOptions {
  // Files in PEM, for https alone. The server's certificate comes from these
  // authorities; empty: from those that the system trusts.
  std::string ca_file = {};
  // What the client shows, and its key; both or none.
  std::string cert_file = {};
  std::string key_file = {};
  // "Bearer TOKEN"; empty: none. Without TLS it goes to this machine alone.
  std::string authorization = {};
};

// The body of the page at `url`, as ParseHttpUrl() reads it. Waits at most 5 s.
// No proxies and no redirections.
//
// INVALID_ARGUMENT: not such a URL, or files that are of no use. UNAVAILABLE:
// no connection, or no answer. Anything but 200 is FAILED_PRECONDITION.
absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    const HttpGetOptions& options = {});

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_HTTP_GET_H_
