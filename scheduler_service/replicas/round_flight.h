// Writes the rounds of one worker to the flight recorder.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_FLIGHT_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_FLIGHT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "common/flight/flight_recorder.h"
#include "scheduler_service/replicas/placements.h"
#include "scheduler_service/replicas/round_in_flight.h"
#include "scheduler_service/watch/metrics.h"
#include "scheduler_service/watch/round_record.h"

namespace bole {

struct RoundFlightOptions {
  // Has the fields of RoundFields(), and is written by the thread that runs the
  // current turn; null: nothing is recorded.
  FlightRecorder* recorder = nullptr;
  int worker_number = 0;
  // Called when a worker was lost while it had a round to run; may be null.
  std::function<void()> on_fault = nullptr;
};

// Writes a record when a round is sent, and amends it when the outcome is
// known. Without a recorder, no method does anything but call `on_fault`.
class RoundFlight {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RoundFlight(RoundFlightOptions options)
      : options_(std::move(options)) {}

  // The time, for the `began` arguments below. The clock is not read without a
  // recorder.
  Clock::time_point Now() const {
    return options_.recorder != nullptr ? Clock::now() : Clock::time_point();
  }

  // A plan was sent; `began` is when the work on it began.
  void Sent(uint64_t epoch, const Placements& placements, bool others_wait,
            Clock::time_point began, RoundInFlight& round) const;
  // The round's result has been applied; `began` is when that began. `metrics`
  // are those of the whole round.
  void Done(const RoundMetrics& metrics, Clock::time_point began,
            RoundInFlight& round) const;
  // The worker continues with the next round of the lease. REQUIRES: the
  // awaited round has advanced.
  void Next(RoundInFlight& round) const;
  void Refused(RoundInFlight& round) const;
  void Lost(RoundInFlight& round) const;

 private:
  void End(RoundOutcome outcome, RoundInFlight& round) const;

  const RoundFlightOptions options_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_FLIGHT_H_
