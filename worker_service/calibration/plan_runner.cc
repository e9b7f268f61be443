#include "worker_service/calibration/plan_runner.h"

#include "common/status_macros.h"

namespace bole {

absl::StatusOr<std::vector<TimedRound>> PlanRunner::Run(StepPlan plan) {
  uint64_t number;
  {
    MutexLock lock(mutex_);
    BOLE_RETURN_IF_ERROR(cancelled_);
    number = ++number_;
    rounds_.clear();
    done_ = false;
    failed_ = absl::OkStatus();
  }
  BOLE_RETURN_IF_ERROR(submit_(number, std::move(plan)));
  MutexLock lock(mutex_);
  while (!done_ && cancelled_.ok()) changed_.Wait(mutex_);
  BOLE_RETURN_IF_ERROR(cancelled_);
  BOLE_RETURN_IF_ERROR(failed_);
  return std::move(rounds_);
}

void PlanRunner::Take(const ComputeOutcome& outcome) {
  MutexLock lock(mutex_);
  if (outcome.sequence != number_) return;
  if (outcome.result.ok()) {
    rounds_.push_back({*outcome.result, outcome.step_seconds});
  } else {
    failed_ = outcome.result.status();
  }
  if (!outcome.is_last()) return;
  done_ = true;
  changed_.NotifyAll();
}

void PlanRunner::Cancel(const absl::Status& why) {
  MutexLock lock(mutex_);
  cancelled_.Update(why);
  changed_.NotifyAll();
}

}  // namespace bole
