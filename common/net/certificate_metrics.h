// When the certificates that a process presents expire.
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

// One series for each, read from its file on every scrape: the time at which
// the first certificate of the chain expires. A file that can no longer be read
// has 0, since it is as bad as an expired one.
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
