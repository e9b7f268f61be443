// Waits for the answers to plans.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_PLAN_RUNNER_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_PLAN_RUNNER_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/step.h"
#include "worker_service/calibration/calibrator.h"
#include "worker_service/loop/compute_loop.h"

namespace bole {

// Connects a thread that runs one plan after the other with a ComputeLoop,
// which answers on its own thread. Thread-safe, but only one thread at a time
// may call Run().
class PlanRunner {
 public:
  // Queues a plan whose outcomes are passed to Take(). Plans are numbered 1, 2,
  // 3, ...
  using Submit = std::function<absl::Status(uint64_t number, StepPlan plan)>;

  explicit PlanRunner(Submit submit) : submit_(std::move(submit)) {}

  // Runs the plan and waits for all its rounds. Errors: those of submitting it,
  // a refusal, a failure of the engine, or the reason of Cancel().
  absl::StatusOr<std::vector<TimedRound>> Run(StepPlan plan);

  // Takes an outcome of the running plan; those of other plans are dropped.
  void Take(const ComputeOutcome& outcome);

  // Ends the waiting Run(), and every later one, with `why`. The first reason
  // counts. REQUIRES: `why` is not OK.
  void Cancel(const absl::Status& why);

 private:
  const Submit submit_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;  // The running plan's number.
  std::vector<TimedRound> rounds_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);     // How it failed.
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);  // Not OK: why.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_PLAN_RUNNER_H_
