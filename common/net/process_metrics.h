// Metrics that every process exports about itself, by the names that
// Prometheus' own client libraries use.
#ifndef BOLE_COMMON_NET_PROCESS_METRICS_H_
#define BOLE_COMMON_NET_PROCESS_METRICS_H_

#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace bole {

// The version, the start, processor time, memory and file descriptors, read
// from /proc on every scrape. Metrics that cannot be read there have no family.
//
// Thread-safe.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  // `service`: "scheduler" or "worker".
  explicit ProcessMetrics(std::string service);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string service_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_PROCESS_METRICS_H_
