// Gauges of each worker, for Prometheus.
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

// Names: README.md. Used by one thread at a time.
class WorkerGauges {
 public:
  // `registry` must outlive this.
  explicit WorkerGauges(prometheus::Registry& registry);

  // Sets the gauges of all workers. The series of workers that are not among
  // them are removed.
  void Set(const std::vector<WorkerStatus>& workers);

 private:
  using GaugeFamily = prometheus::Family<prometheus::Gauge>;
  // The series of one worker: one gauge for each family.
  struct Series {
    std::vector<prometheus::Gauge*> gauges = {};
    prometheus::Gauge* info = nullptr;  // Null before a worker was described.
    std::shared_ptr<const WorkerDescription> told = nullptr;  // By `info`.
    std::string model = {};  // Also told by `info`.
  };

  void Set(const WorkerStatus& worker);
  void Tell(const WorkerStatus& worker, Series& series);
  void RemoveAllBut(const std::vector<WorkerStatus>& workers);

  std::vector<GaugeFamily*> families_;
  GaugeFamily& info_;
  std::map<std::string, Series> workers_;  // By name.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_WORKER_GAUGES_H_
