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
#include "worker_service/compute_loop.h"

namespace bole {

// Between a thread that runs one plan after the other and a ComputeLoop, which
// answers on its own thread. Thread-safe; Run() is for one thread at a time.
class PlanRunner {
 public:
  // Queues a plan; its outcomes go to Take(). Plans are numbered 1, 2, 3, ...
  using Submit = std::function<absl::Status(uint64_t number, StepPlan plan)>;

  explicit PlanRunner(Submit submit) : submit_(std::move(submit)) {}

  // Waits for all rounds of the plan. Errors of submitting it, a refusal, a
  // failure of the engine, or why it was cancelled.
  absl::StatusOr<std::vector<TimedRound>> Run(StepPlan plan);

  // An outcome of the plan that runs; others are dropped.
  void Take(const ComputeOutcome& outcome);

  // Ends the Run() that waits, and every later one, with `why`, which is not
  // OK. The first reason counts.
  void Cancel(const absl::Status& why);

 private:
  const Submit submit_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;  // Of the plan that runs.
  std::vector<TimedRound> rounds_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);     // Of that plan.
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);  // Not OK: why.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_PLAN_RUNNER_H_
