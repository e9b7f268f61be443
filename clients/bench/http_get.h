// A page over HTTP: metrics, or what a server says of itself.
#ifndef BOLE_CLIENTS_BENCH_HTTP_GET_H_
#define BOLE_CLIENTS_BENCH_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"

namespace bole::bench {

struct HttpGetOptions {
  // PEM files for https.
  std::string ca_file = {};
  std::string cert_file = {};
  std::string key_file = {};
  std::string authorization = {};  // The header's value; empty: none.
};

// The body of the page at `url`, as ParseHttpUrl() reads it. Waits at most 5 s.
// No proxies and no redirections.
//
// INVALID_ARGUMENT: not such a URL. UNIMPLEMENTED: https. UNAVAILABLE: no
// connection, or no answer. Anything but 200 is FAILED_PRECONDITION.
absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    const HttpGetOptions& options = {});

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_HTTP_GET_H_
