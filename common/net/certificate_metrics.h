// When the certificates end that a process shows.
#ifndef BOLE_COMMON_NET_CERTIFICATE_METRICS_H_
#define BOLE_COMMON_NET_CERTIFICATE_METRICS_H_

#include <string>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace bole {

// A chain of certificates that is used while the process runs.
struct UsedCertificate {
  std::string use;   // "server", "worker_client", "peer_client".
  std::string path;  // Empty: there is none.
};

// One series for each, read from its file by every scrape: the moment at which
// the first certificate of the chain ends. A file that cannot be read any more
// has 0, as it is as bad as one that has ended.
//
// Thread-safe.
class CertificateMetrics final : public prometheus::Collectable {
 public:
  explicit CertificateMetrics(std::vector<UsedCertificate> certificates)
      : certificates_(std::move(certificates)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::vector<UsedCertificate> certificates_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_CERTIFICATE_METRICS_H_
