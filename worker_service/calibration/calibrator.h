// Measures what the rounds of a worker cost.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_CALIBRATOR_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_CALIBRATOR_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "worker_service/calibration/combinations.h"
#include "worker_service/calibration/fit.h"

namespace bole {

struct CalibrationOptions {
  CalibrationSize size = CalibrationSize::kCoarse;
  CostTableOf of = {};
  StepLimits limits = {};
  bool has_drafter = false;
  // Row counts that forwards are padded to, ascending; empty: no padding.
  std::vector<int> row_buckets = {};
  Experts experts = {};  // The model's experts.
  // The usual sampling parameters of requests.
  SamplingParams sampling = {};
  // No round begins later than this after the first one; 0: no limit. Every
  // kind of round is measured as often as the size says, or as often as there
  // is time for, but once at least.
  std::chrono::nanoseconds max_time{0};
  // The table stores this plus the time that a plan takes beyond its rounds.
  double round_trip_seconds = 0;
};

// A result of a plan and the time in the engine since the previous result, or
// since the plan began.
struct TimedRound {
  StepResult result;
  double seconds;
};

// Runs a plan that ValidatePlan() accepts and waits for its last round. An
// error ends the calibration.
using RunPlan =
    std::function<absl::StatusOr<std::vector<TimedRound>>(StepPlan plan)>;

struct CalibrationProgress {
  std::string phase;  // "prefilling", "measuring", "fitting"
  int done = 0;       // Steps of the phase.
  int total = 0;
};
using OnCalibrationProgress =
    std::function<void(const CalibrationProgress& progress)>;

// Uses every slot and page of the worker, which must serve nothing else. The
// kinds of rounds take turns, so that a temporary disturbance of the machine
// affects all of them alike, and each kind is represented by its median. The
// first run of a kind does not count. Where rows are padded, neither does the
// first round of each turn, which may have to capture a graph.
//
// FAILED_PRECONDITION: the worker is too small (LayoutOf()).
// DEADLINE_EXCEEDED: there was no time to run every kind of round once.
// INTERNAL: the model's logits are not numbers. Errors of `run`.
absl::StatusOr<CostTable> Calibrate(const CalibrationOptions& options,
                                    const RunPlan& run,
                                    const OnCalibrationProgress& on_progress);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_CALIBRATOR_H_
