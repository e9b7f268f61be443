// What the prefix caches of workers keep, for Prometheus.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_CACHE_METRICS_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_CACHE_METRICS_H_

#include <map>
#include <string>
#include <vector>

#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// Names: README.md. One thread at a time.
class CacheMetrics {
 public:
  // `registry` must outlive this.
  explicit CacheMetrics(prometheus::Registry& registry);

  void Set(const WorkerStatus& worker);
  // There is no such worker any more.
  void Remove(const std::string& worker);

 private:
  std::vector<prometheus::Family<prometheus::Gauge>*> families_;
  // By the names of workers; as many as there are families.
  std::map<std::string, std::vector<prometheus::Gauge*>> workers_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_CACHE_METRICS_H_
