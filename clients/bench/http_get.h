// A page over HTTP, for metrics.
#ifndef BOLE_CLIENTS_BENCH_HTTP_GET_H_
#define BOLE_CLIENTS_BENCH_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"

namespace bole::bench {

// The body of the page at `url`, "http://HOST:PORT/PATH". Without a port it is
// 80. Waits at most 5 s. No proxies and no redirections.
//
// INVALID_ARGUMENT: not such a URL. UNAVAILABLE: no connection, or no answer.
// Anything but 200 is FAILED_PRECONDITION.
absl::StatusOr<std::string> HttpGet(const std::string& url);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_HTTP_GET_H_
