// Which scheduler a worker obeys.
#ifndef BOLE_WORKER_SERVICE_SCHEDULER_SEAT_H_
#define BOLE_WORKER_SERVICE_SCHEDULER_SEAT_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace bole {

// Who opens a stream.
struct SchedulerHello {
  std::string name = {};  // For people.
  // Random for each process. 0: all schedulers that do not tell one, which
  // count as one instance.
  uint64_t instance = 0;
  uint64_t epoch = 0;  // Ascends from stream to stream of one instance.
  uint32_t protocol_version = 0;
};

// "scheduler gpu-1:50051 (instance 1f, epoch 3)"
std::string ToString(const SchedulerHello& hello);

// The one place of a worker's scheduler. Who has it keeps it as long as it is
// heard from; another instance gets it when the holder has left, or was silent
// for longer than the patience. The same instance takes over from itself with a
// higher epoch, whatever the old stream does.
//
// Knows no clock, no stream and no lock: the caller says what happens and what
// time it is.
class SchedulerSeat {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit SchedulerSeat(std::chrono::milliseconds patience)
      : patience_(patience) {}

  // Makes the scheduler the holder. The stream of the former holder, if it is
  // still open, is then to be ended.
  //
  //   UNAVAILABLE          another one holds the seat; the message names it and
  //                        says when it was heard. It is worth coming again.
  //   FAILED_PRECONDITION  the instance had the seat last, with this epoch or a
  //                        higher one.
  absl::Status Take(const SchedulerHello& hello, Time now);

  // The holder gave a sign of life.
  void Heard(Time now) { heard_ = now; }

  // The holder's stream has ended.
  void Leave() { held_ = false; }

  // "scheduler gpu-1:50051 (instance 1f, epoch 3), heard 0.2 s ago". REQUIRES:
  // the seat was taken before.
  std::string Holder(Time now) const;

 private:
  const std::chrono::milliseconds patience_;
  SchedulerHello last_;  // Who holds the seat, or held it last.
  bool held_ = false;
  Time heard_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SCHEDULER_SEAT_H_
