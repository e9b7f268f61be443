// Metrics over HTTP, for Prometheus to scrape.
#ifndef BOLE_COMMON_NET_METRICS_ENDPOINT_H_
#define BOLE_COMMON_NET_METRICS_ENDPOINT_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/net/listen_address.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace bole {

// Answers GET /metrics from a registry until it is destroyed. Thread-safe.
class MetricsEndpoint {
 public:
  // Listens at `address`, as ParseListenAddress() reads it and with its errors;
  // UNAVAILABLE, naming the address, if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      std::string_view address, Reach reach,
      std::shared_ptr<prometheus::Collectable> metrics);

  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  // Where it listens, the port being the real one.
  const ListenAddress& address() const { return address_; }

 private:
  MetricsEndpoint(std::unique_ptr<prometheus::Exposer> exposer,
                  std::shared_ptr<prometheus::Collectable> metrics,
                  ListenAddress address);

  // The exposer holds a weak pointer.
  const std::shared_ptr<prometheus::Collectable> metrics_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
  const ListenAddress address_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_METRICS_ENDPOINT_H_
