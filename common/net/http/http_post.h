// A POST over HTTP, for what is sent to a collector.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_POST_H_
#define BOLE_COMMON_NET_HTTP_HTTP_POST_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "common/http_url.h"

namespace bole {

// Sends `body` as JSON on a connection of its own, and waits for the answer.
// UNAVAILABLE, with what failed, unless that is a status of 200 to 299 and
// comes within `timeout`.
//
// https: TLS 1.2 or later to a server whose certificate is of the URL's host,
// by an authority of `ca_file`, in PEM, which is read for each call; empty: by
// one of the system's. INVALID_ARGUMENT, naming it, if the file is of no use.
absl::Status PostJson(const HttpUrl& url, const std::string& body,
                      std::chrono::milliseconds timeout,
                      const std::string& ca_file = "");

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_POST_H_
