// How fast the scheduler takes in what waits, and so when to come again.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_INTAKE_RATE_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_INTAKE_RATE_H_

#include <chrono>
#include <cstddef>

#include "scheduler_service/jobs/request.h"

namespace bole {

inline constexpr std::chrono::milliseconds kMinRetryDelay{100};
inline constexpr std::chrono::milliseconds kMaxRetryDelay{60'000};
// Before anything was taken in: a round takes milliseconds and a request
// seconds, so there is likely to be room after one.
inline constexpr std::chrono::milliseconds kFirstRetryDelay{1000};

// The prompt tokens that the scheduler lately took out of the queue, over the
// time in which something waited there: while nothing waits, the queue says
// nothing of how fast it moves. What happened ten seconds ago counts 1/e.
//
// It has no clock: times are told, and never go back. Not thread-safe.
class IntakeRate {
 public:
  // From now on requests wait, or none does.
  void SetWaiting(bool waiting, TimePoint now);
  // A request with so many prompt tokens got its place.
  void TookIn(size_t tokens, TimePoint now);

  // How long the scheduler takes for `waiting_tokens` at this rate, from
  // kMinRetryDelay to kMaxRetryDelay; kFirstRetryDelay before it took anything
  // in.
  std::chrono::milliseconds RetryDelay(size_t waiting_tokens,
                                       TimePoint now) const;

 private:
  // Lets the time from `last_` to `now` pass.
  void PassTo(TimePoint now);

  bool waiting_ = false;
  TimePoint last_;
  // Both fade with time.
  double tokens_ = 0;
  double seconds_ = 0;  // In which something waited.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_INTAKE_RATE_H_
