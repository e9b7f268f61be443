// Decides which scheduler a worker obeys.
#ifndef BOLE_WORKER_SERVICE_SERVING_SCHEDULER_SEAT_H_
#define BOLE_WORKER_SERVICE_SERVING_SCHEDULER_SEAT_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace bole {

// The scheduler that opens a stream.
struct SchedulerHello {
  std::string name = {};  // For messages.
  // Random for each process. 0 stands for all schedulers that send none; they
  // count as one instance.
  uint64_t instance = 0;
  uint64_t epoch = 0;  // Increases with every stream of an instance.
  uint32_t protocol_version = 0;
};

// "scheduler gpu-1:50051 (instance 1f, epoch 3)"
std::string ToString(const SchedulerHello& hello);

// The seat for the one scheduler of a worker. The holder keeps it as long as it
// is heard from; another instance gets it when the holder has left, or has been
// silent for longer than `patience`. The same instance takes over from itself
// with a higher epoch, whatever its old stream does.
//
// Knows no clock, stream or lock: the caller reports the events and the time.
class SchedulerSeat {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit SchedulerSeat(std::chrono::milliseconds patience)
      : patience_(patience) {}

  // Makes the scheduler the holder. If the stream of the former holder is still
  // open, the caller then has to end it.
  //
  //   UNAVAILABLE          another one holds the seat; the message names it and
  //                        says when it was last heard. Try again later.
  //   FAILED_PRECONDITION  the instance was the last holder, with this epoch
  //                        or a higher one.
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
  SchedulerHello last_;  // The holder, or the last one.
  bool held_ = false;
  Time heard_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_SCHEDULER_SEAT_H_
