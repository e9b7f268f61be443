// Fetches a page over HTTP: metrics, or a server's description of itself.
#ifndef BOLE_CLIENTS_BENCH_HTTP_GET_H_
#define BOLE_CLIENTS_BENCH_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"

namespace bole::bench {

struct HttpGetOptions {
  // PEM files, used only for https. This one has the authorities that may issue
  // the server's certificate; empty: those that the system trusts.
  std::string ca_file = {};
  // The client's certificate and its key; both or neither.
  std::string cert_file = {};
  std::string key_file = {};
  // "Bearer TOKEN"; empty: none. Without TLS it is sent only to this machine.
  std::string authorization = {};
};

// Returns the body of the page at `url`, as ParseHttpUrl() reads it. It waits
// at most 5 s, uses no proxies and follows no redirections.
//
// INVALID_ARGUMENT: the URL is malformed, or a file is unusable. UNAVAILABLE:
// no connection, or no answer. FAILED_PRECONDITION: a status other than 200.
absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    const HttpGetOptions& options = {});

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_HTTP_GET_H_
