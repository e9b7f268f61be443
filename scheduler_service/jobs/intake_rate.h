// Measures how fast the scheduler takes in waiting requests, which says when a
// refused client should retry.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_INTAKE_RATE_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_INTAKE_RATE_H_

#include <chrono>
#include <cstddef>

#include "scheduler_service/jobs/request.h"

namespace bole {

inline constexpr std::chrono::milliseconds kMinRetryDelay{100};
inline constexpr std::chrono::milliseconds kMaxRetryDelay{60'000};
// The delay before anything was taken in: a round takes milliseconds and a
// request seconds, so there is likely to be room after one second.
inline constexpr std::chrono::milliseconds kFirstRetryDelay{1000};

// The rate at which the scheduler lately took prompt tokens out of the queue,
// over the time in which something waited there: an empty queue does not show
// how fast it could move. What happened ten seconds ago counts 1/e.
//
// It has no clock: callers pass the time, which never decreases. Not
// thread-safe.
class IntakeRate {
 public:
  // Says whether requests wait from now on.
  void SetWaiting(bool waiting, TimePoint now);
  // A request with `tokens` prompt tokens got its place.
  void TookIn(size_t tokens, TimePoint now);

  // How long the scheduler takes for `waiting_tokens` at this rate, from
  // kMinRetryDelay to kMaxRetryDelay; kFirstRetryDelay if it has not taken
  // anything in yet.
  std::chrono::milliseconds RetryDelay(size_t waiting_tokens,
                                       TimePoint now) const;

 private:
  // Accounts for the time from `last_` to `now`.
  void PassTo(TimePoint now);

  bool waiting_ = false;
  TimePoint last_;
  // Both decay with time.
  double tokens_ = 0;
  double seconds_ = 0;  // In which something waited.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_INTAKE_RATE_H_
