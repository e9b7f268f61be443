// Metrics of how the workers of a pool are shared, for Prometheus.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_SHARE_METRICS_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_SHARE_METRICS_H_

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "scheduler_service/links/peer_table.h"
#include "scheduler_service/links/share.h"

namespace bole {

// Names: README.md. Used by one thread at a time.
class ShareMetrics {
 public:
  // `registry` must outlive this.
  explicit ShareMetrics(prometheus::Registry& registry);

  void Set(const PoolShares& shares, const PeerView& peers);

 private:
  prometheus::Family<prometheus::Gauge>& workers_;
  prometheus::Family<prometheus::Gauge>& schedulers_;
  prometheus::Counter& claimed_;
  prometheus::Counter& given_back_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_SHARE_METRICS_H_
