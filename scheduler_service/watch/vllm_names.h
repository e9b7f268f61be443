// The scheduler's metrics once more, under the names that vLLM gives to the
// same quantities, for autoscalers, gateways and dashboards that expect those.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_VLLM_NAMES_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_VLLM_NAMES_H_

#include <memory>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace bole {

// Families "vllm:..." with a label "model_name". Every scrape makes them from
// those of a registry with the scheduler's Metrics. The values are the same:
// only names and labels differ. The buckets are still Bole's. What Bole does
// not measure is left out. deploy/prometheus/METRICS.md has the table.
//
// Thread-safe.
class VllmNames final : public prometheus::Collectable {
 public:
  explicit VllmNames(std::shared_ptr<prometheus::Collectable> metrics)
      : metrics_(std::move(metrics)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::shared_ptr<prometheus::Collectable> metrics_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_VLLM_NAMES_H_
