// A page over HTTP: metrics, or what a server says of itself.
#ifndef BOLE_CLIENTS_BENCH_HTTP_GET_H_
#define BOLE_CLIENTS_BENCH_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"

namespace bole::bench {

// The body of the page at `url`, as ParseHttpUrl() reads it; `authorization`,
// unless it is empty, is the value of that header. Waits at most 5 s. No
// proxies and no redirections.
//
// INVALID_ARGUMENT: not such a URL. UNIMPLEMENTED: https. UNAVAILABLE: no
// connection, or no answer. Anything but 200 is FAILED_PRECONDITION.
absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    const std::string& authorization = {});

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_HTTP_GET_H_
