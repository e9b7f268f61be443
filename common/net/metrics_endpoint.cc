#include "common/net/metrics_endpoint.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// The library's constructor throws if the address cannot be bound.
absl::StatusOr<std::unique_ptr<prometheus::Exposer>> Listen(
    const std::string& address) {
  constexpr int kThreads = 1;
  try {
    return std::make_unique<prometheus::Exposer>(address, kThreads);
  } catch (const std::exception&) {
    // Its text says no more than that it failed.
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address,
        ": the port may be in use, or a thread could not be started"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    std::string_view address, Reach reach,
    std::shared_ptr<prometheus::Collectable> metrics) {
  BOLE_ASSIGN_OR_RETURN(ListenAddress where,
                        ParseListenAddress(address, reach));
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<prometheus::Exposer> exposer,
                        Listen(where.ToString()));
  const std::vector<int> ports = exposer->GetListeningPorts();
  if (ports.size() != 1) {
    return absl::InternalError(absl::StrCat("listening on ", ports.size(),
                                            " ports for ", where.ToString()));
  }
  where.port = ports.front();
  exposer->RegisterCollectable(metrics);
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(
      std::move(exposer), std::move(metrics), std::move(where)));
}

MetricsEndpoint::MetricsEndpoint(
    std::unique_ptr<prometheus::Exposer> exposer,
    std::shared_ptr<prometheus::Collectable> metrics, ListenAddress address)
    : metrics_(std::move(metrics)),
      exposer_(std::move(exposer)),
      address_(std::move(address)) {}

}  // namespace bole
