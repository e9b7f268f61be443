// Metrics over HTTP, for Prometheus to scrape.
#ifndef BOLE_COMMON_NET_METRICS_ENDPOINT_H_
#define BOLE_COMMON_NET_METRICS_ENDPOINT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/http/http_message.h"
#include "common/net/http/http_server.h"
#include "common/net/http/server_tls.h"
#include "common/net/listen_address.h"
#include "prometheus/collectable.h"

namespace bole {

// The answer to a scrape of metrics.
HttpAnswer MetricsAnswer(const prometheus::Collectable& metrics);

// Returns the answer to a request that is refused by its head. Must not block.
using MetricsGuard =
    std::function<std::optional<HttpAnswer>(const HttpRequest& head)>;

struct MetricsEndpointOptions {
  std::string address = "127.0.0.1:0";  // As ParseListenAddress() reads it.
  Reach reach = Reach::kLoopback;
  std::shared_ptr<ServerTls> tls = nullptr;  // Null: in the clear.
  MetricsGuard guard = nullptr;              // Null: everybody may read them.
};

// Answers GET /metrics from a registry until it is destroyed, and nothing else.
// Thread-safe.
class MetricsEndpoint {
 public:
  // The errors of HttpServer::Start().
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      MetricsEndpointOptions options,
      std::shared_ptr<prometheus::Collectable> metrics);
  ~MetricsEndpoint();

  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  // The address on which it listens, with the actual port.
  const ListenAddress& address() const { return server_->address(); }

 private:
  class Handler;

  MetricsEndpoint(std::unique_ptr<Handler> handler,
                  std::unique_ptr<HttpServer> server);

  const std::unique_ptr<Handler> handler_;
  const std::unique_ptr<HttpServer> server_;  // Uses the handler.
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_METRICS_ENDPOINT_H_
