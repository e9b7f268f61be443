// Everything that a scheduler tells Prometheus.
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
  bool vllm_names = false;  // As VllmNames has them, besides Bole's own.
};

// The metrics, and what the process and its certificates tell.
std::shared_ptr<prometheus::Collectable> MakeSchedulerPage(
    const Metrics& metrics, const SchedulerPageOptions& options);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_SCHEDULER_PAGE_H_
