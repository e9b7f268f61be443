// The HTTP servers of a scheduler.
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
  std::string metrics_address = {};  // Empty: no separate one.
  Reach reach = Reach::kLoopback;    // For both addresses, as is `tls`.
  TlsFiles tls = {};
  HttpLimits limits = {};  // For `http_address`.
  // The same as in ServerTlsOptions.
  std::function<void(const std::string&)> note = nullptr;
};

// The servers of the API and of the metrics; each is optional. Thread-safe.
class HttpListeners {
 public:
  // Callers that may read the metrics of `service` may read them at the metrics
  // address. `service` must outlive the listeners. Returns the errors of
  // HttpServer::Start() and ServerTls::Open().
  static absl::StatusOr<HttpListeners> Start(
      const HttpListenersOptions& options, HttpService& service,
      std::shared_ptr<prometheus::Collectable> metrics);

  HttpListeners() = default;  // Listens nowhere.

  int http_port() const;     // 0: no API.
  int metrics_port() const;  // 0: no separate address.

  // The same as in HttpServer, for the API only; the metrics are served until
  // the end.
  void Drain();
  void Stop();

 private:
  std::unique_ptr<HttpServer> http_;          // May be null.
  std::unique_ptr<MetricsEndpoint> metrics_;  // May be null.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_HTTP_LISTENERS_H_
