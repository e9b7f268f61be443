// What the flight recorder is told of one plan.
#ifndef BOLE_WORKER_SERVICE_STEP_FLIGHT_H_
#define BOLE_WORKER_SERVICE_STEP_FLIGHT_H_

#include <chrono>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/flight/flight_recorder.h"
#include "common/step.h"
#include "worker_service/step_record.h"

namespace bole {

// Lives while the plan runs. There is a record from the begin of each round on,
// so that the one that fails or hangs is the last of a file. Without a recorder
// nothing is done.
class StepFlight {
 public:
  using Clock = std::chrono::steady_clock;

  // `recorder` may be null; `plan` outlives this.
  StepFlight(FlightRecorder* recorder, uint64_t stream, uint64_t number,
             const StepPlan& plan);

  // It is next, was queued at `queued`, and leaves `waiting` behind it.
  void Taken(Clock::time_point queued, int waiting);
  // It can be run, and begins.
  void Begin();
  // A round gave a result after `took`, or the step failed. Of a lease that
  // goes on, the next round begins.
  void Add(const absl::StatusOr<StepResult>& result, Clock::duration took);
  // Nothing more comes.
  void End(StepOutcome outcome);

 private:
  FlightRecorder* const recorder_;
  StepRecord record_;
  Clock::time_point taken_;
  uint64_t number_ = 0;  // Of the record.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_STEP_FLIGHT_H_
