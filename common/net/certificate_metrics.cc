#include "common/net/certificate_metrics.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/net/pem_files.h"

namespace bole {

std::vector<prometheus::MetricFamily> CertificateMetrics::Collect() const {
  prometheus::MetricFamily family{
      .name = "bole_certificate_expiry_timestamp_seconds",
      .help =
          "When the first certificate of a chain ends, in seconds since "
          "1970, by what the chain is used for: server, worker_client, "
          "peer_client. 0: its file cannot be read.",
      .type = prometheus::MetricType::Gauge,
      .metric = {}};
  for (const UsedCertificate& used : certificates_) {
    if (used.path.empty()) continue;
    const absl::StatusOr<int64_t> end = EndOfCertificates(used.path);
    prometheus::ClientMetric metric;
    metric.label = {{"use", used.use}};
    metric.gauge.value = static_cast<double>(end.value_or(0));
    family.metric.push_back(std::move(metric));
  }
  if (family.metric.empty()) return {};
  return {std::move(family)};
}

}  // namespace bole
