#include "scheduler_service/http_listeners.h"

#include <utility>

#include "common/net/http/http_message.h"
#include "common/net/http/server_tls.h"
#include "common/status_macros.h"

namespace bole {

absl::StatusOr<HttpListeners> HttpListeners::Start(
    const HttpListenersOptions& options, HttpService& service,
    std::shared_ptr<prometheus::Collectable> metrics) {
  HttpListeners listeners;
  const bool listens =
      !options.http_address.empty() || !options.metrics_address.empty();
  if (!listens) return listeners;
  BOLE_ASSIGN_OR_RETURN(
      const std::shared_ptr<ServerTls> tls,
      ServerTls::Open({.files = options.tls, .note = options.note}));
  if (!options.http_address.empty()) {
    BOLE_ASSIGN_OR_RETURN(listeners.http_,
                          HttpServer::Start({.address = options.http_address,
                                             .reach = options.reach,
                                             .limits = options.limits,
                                             .tls = tls},
                                            service));
  }
  if (!options.metrics_address.empty()) {
    const auto guard = [&service](const HttpRequest& head) {
      return service.Refuse(head);
    };
    BOLE_ASSIGN_OR_RETURN(
        listeners.metrics_,
        MetricsEndpoint::Start({.address = options.metrics_address,
                                .reach = options.reach,
                                .tls = tls,
                                .guard = guard},
                               std::move(metrics)));
  }
  return listeners;
}

int HttpListeners::http_port() const {
  return http_ ? http_->address().port : 0;
}

int HttpListeners::metrics_port() const {
  return metrics_ ? metrics_->address().port : 0;
}

void HttpListeners::Drain() {
  if (http_) http_->Drain();
}

void HttpListeners::Stop() {
  if (http_) http_->Stop();
}

}  // namespace bole
