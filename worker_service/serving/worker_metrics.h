// The worker's metrics.
#ifndef BOLE_WORKER_SERVICE_SERVING_WORKER_METRICS_H_
#define BOLE_WORKER_SERVICE_SERVING_WORKER_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/step.h"
#include "prometheus/collectable.h"
#include "prometheus/registry.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/loop/compute_loop.h"

namespace bole {

// All methods may be called from any thread. Names and units: README.md.
class WorkerMetrics {
 public:
  WorkerMetrics();
  ~WorkerMetrics();

  WorkerMetrics(const WorkerMetrics&) = delete;
  WorkerMetrics& operator=(const WorkerMetrics&) = delete;

  const std::shared_ptr<prometheus::Registry>& registry() const;
  // Everything that the process exports: these metrics, those that every
  // process has, and the time at which the certificate chain at `cert_path`
  // expires, unless the path is empty.
  std::shared_ptr<prometheus::Collectable> Page(
      const std::string& cert_path) const;

  void SetSizes(const StepLimits& limits, const MemoryPlan& memory);

  // Sets the number of rounds since the start that had no graph. Called by one
  // thread.
  void SetGraphMisses(int64_t total);

  // A scheduler's stream was opened; was refused for its epoch, because another
  // scheduler holds the worker, or for its protocol version; or ended.
  void Opened(uint64_t epoch);
  void StaleEpoch();
  void Held();
  void OtherVersion();
  void Closed();
  // A request could not be read, which ended its stream.
  void Malformed();
  // A plan was run or refused, or made the engine fail.
  void Stepped(const ComputeOutcome& outcome);
  // A plan hangs.
  void Hung();
  // The device was lost while no plan ran.
  void Lost();

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_WORKER_METRICS_H_
