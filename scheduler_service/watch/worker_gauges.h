// What is known of each worker, for Prometheus.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_WORKER_GAUGES_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_WORKER_GAUGES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// Names: README.md. One thread at a time.
class WorkerGauges {
 public:
  // `registry` must outlive this.
  explicit WorkerGauges(prometheus::Registry& registry);

  // These are all the workers that there are. The others have no series.
  void Set(const std::vector<WorkerStatus>& workers);

 private:
  using GaugeFamily = prometheus::Family<prometheus::Gauge>;
  // As many gauges as there are families.
  struct Series {
    std::vector<prometheus::Gauge*> gauges = {};
    prometheus::Gauge* info = nullptr;  // Null before a worker was described.
    std::shared_ptr<const WorkerDescription> told = nullptr;  // By `info`.
    std::string model = {};                                   // The same.
  };

  void Set(const WorkerStatus& worker);
  void Tell(const WorkerStatus& worker, Series& series);
  void RemoveAllBut(const std::vector<WorkerStatus>& workers);

  std::vector<GaugeFamily*> families_;
  GaugeFamily& info_;
  std::map<std::string, Series> workers_;  // By their names.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_WORKER_GAUGES_H_
