// The scheduler's metrics, under the names that dashboards use.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_METRICS_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_METRICS_H_

#include <memory>
#include <string>

#include "prometheus/registry.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/watch/model_series.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// All methods may be called from any thread. Names and units: README.md.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  const std::shared_ptr<prometheus::Registry>& registry() const;

  // The series of one model, as ModelFamilies::Of().
  ModelSeries& Of(const std::string& model);
  // An admitted request ended. Counts it for its model and its tenant.
  void Ended(const EndedRequest& request);
  void Preempted();
  // A request lost its place and waits for another one: it was "lost" with its
  // worker, "evicted" for the pages that others need, "preempted" for a tenant
  // that holds less, or its worker "drained".
  void Migrated(const std::string& reason);
  // A request failed, because the model's logits were not numbers.
  void BadLogits();
  // Sets the gauges. Those of workers that are not in `status` are removed.
  void SetLoad(const SchedulerStatus& status, const AdmissionLoad& waiting);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_METRICS_H_
