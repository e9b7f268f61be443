// Listens for HTTP/1.1.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_SERVER_H_
#define BOLE_COMMON_NET_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/http/http_handler.h"
#include "common/net/http/http_limits.h"
#include "common/net/http/server_tls.h"
#include "common/net/listen_address.h"

namespace bole {

struct HttpServerOptions {
  std::string address = "127.0.0.1:0";  // As ParseListenAddress() reads it.
  Reach reach = Reach::kLoopback;
  HttpLimits limits = {};
  std::shared_ptr<ServerTls> tls = nullptr;  // Null: in the clear.
  int num_threads = 0;  // 0: a quarter of the cores, from 2 to 4.
};

// Serves any number of connections with a few threads. Peers that go dead are
// noticed within 90 s. Thread-safe.
class HttpServer {
 public:
  // The handler must outlive the server. Besides the errors of
  // ParseListenAddress(): UNAVAILABLE, naming the address, if it cannot be
  // bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const HttpServerOptions& options, HttpHandler& handler);
  ~HttpServer();  // Calls Stop().

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address on which it listens, with the actual port.
  const ListenAddress& address() const;
  size_t num_connections() const;
  size_t body_bytes() const;  // Used of HttpLimits::max_bodies_bytes.

  // Stops listening, a moment later. Existing connections continue, each until
  // its next answer.
  void Drain();

  // Calls Drain() and closes every connection. Returns when all calls have been
  // told that they are done, so it must not be called from one.
  void Stop();

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_SERVER_H_
