// Posts data to a collector over HTTP.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_POST_H_
#define BOLE_COMMON_NET_HTTP_HTTP_POST_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "common/http_url.h"

namespace bole {

// Sends `body` as JSON on a connection of its own, and waits for the answer.
// UNAVAILABLE, with what failed, unless the answer has a status of 200 to 299
// and arrives within `timeout`.
//
// For https: TLS 1.2 or later. The server's certificate must be issued for the
// URL's host by an authority of the PEM file `ca_file`, which is read for each
// call; empty: by one of the system's. INVALID_ARGUMENT, naming the file, if it
// is unusable.
absl::Status PostJson(const HttpUrl& url, const std::string& body,
                      std::chrono::milliseconds timeout,
                      const std::string& ca_file = "");

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_POST_H_
