// Everything that a scheduler exports to Prometheus.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_SCHEDULER_PAGE_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_SCHEDULER_PAGE_H_

#include <memory>
#include <vector>

#include "common/net/certificate_metrics.h"
#include "prometheus/collectable.h"
#include "scheduler_service/watch/metrics.h"

namespace bole {

struct SchedulerPageOptions {
  std::vector<UsedCertificate> certificates = {};
  bool vllm_names = false;  // Also export the names of VllmNames.
};

// Collects the metrics, and those of the process and its certificates.
std::shared_ptr<prometheus::Collectable> MakeSchedulerPage(
    const Metrics& metrics, const SchedulerPageOptions& options);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_SCHEDULER_PAGE_H_
