// The records of one plan for the flight recorder.
#ifndef BOLE_WORKER_SERVICE_LOOP_STEP_FLIGHT_H_
#define BOLE_WORKER_SERVICE_LOOP_STEP_FLIGHT_H_

#include <chrono>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/flight/flight_recorder.h"
#include "common/step.h"
#include "worker_service/loop/step_record.h"

namespace bole {

// Lives while the plan runs. Each round has a record from its start on, so that
// a round that fails or hangs is the last one of a file. Without a recorder
// nothing is done.
class StepFlight {
 public:
  using Clock = std::chrono::steady_clock;

  // `recorder` may be null; `plan` outlives this.
  StepFlight(FlightRecorder* recorder, uint64_t stream, uint64_t number,
             const StepPlan& plan);

  // The plan, which was queued at `queued`, was taken from the queue; `waiting`
  // plans remain in it.
  void Taken(Clock::time_point queued, int waiting);
  // The plan is valid and begins to run.
  void Begin();
  // A round gave a result after `took`, or the step failed. If a lease goes on,
  // its next round begins.
  void Add(const absl::StatusOr<StepResult>& result, Clock::duration took);
  // Nothing more comes.
  void End(StepOutcome outcome);

 private:
  FlightRecorder* const recorder_;
  StepRecord record_;
  Clock::time_point taken_;
  uint64_t number_ = 0;  // The record's number.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOOP_STEP_FLIGHT_H_
