// Where a scheduler listens for HTTP.
#ifndef BOLE_SCHEDULER_SERVICE_HTTP_LISTENERS_H_
#define BOLE_SCHEDULER_SERVICE_HTTP_LISTENERS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/http/http_limits.h"
#include "common/net/http/http_server.h"
#include "common/net/listen_address.h"
#include "common/net/metrics_endpoint.h"
#include "common/net/pem_files.h"
#include "prometheus/collectable.h"
#include "scheduler_service/door/http/http_service.h"

namespace bole {

struct HttpListenersOptions {
  std::string http_address = {};     // Empty: no API.
  std::string metrics_address = {};  // Empty: none for metrics alone.
  Reach reach = Reach::kLoopback;    // For both, as is the next.
  TlsFiles tls = {};
  HttpLimits limits = {};  // For `http_address`.
  // As ServerTlsOptions has it.
  std::function<void(const std::string&)> note = nullptr;
};

// The API and the metrics, each at its address or nowhere. Thread-safe.
class HttpListeners {
 public:
  // Who may read metrics of `service` may read them at the other address. It
  // must outlive the listeners. The errors of HttpServer::Start() and
  // ServerTls::Open().
  static absl::StatusOr<HttpListeners> Start(
      const HttpListenersOptions& options, HttpService& service,
      std::shared_ptr<prometheus::Collectable> metrics);

  HttpListeners() = default;  // Nowhere.

  int http_port() const;     // 0: no API.
  int metrics_port() const;  // 0: none for metrics alone.

  // As HttpServer has them, of the API; metrics are there until the end.
  void Drain();
  void Stop();

 private:
  std::unique_ptr<HttpServer> http_;          // May be null.
  std::unique_ptr<MetricsEndpoint> metrics_;  // May be null.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_HTTP_LISTENERS_H_
