// Which failures of a call are retried, and when.
#ifndef BOLE_CLIENTS_SDK_RETRY_POLICY_H_
#define BOLE_CLIENTS_SDK_RETRY_POLICY_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

#include "clients/sdk/call_error.h"

namespace bole {

struct RetryPolicy {
  // The most attempts until part of the answer arrives. 1: no retries.
  int max_attempts = 5;
  // How many times in a row, without anything new in between, a broken stream
  // is resumed. 0: a broken stream has failed.
  int max_resumes = 5;
  // The wait after the first failure. It doubles with each failure, up to
  // max_backoff. A random part, up to a half, is subtracted, so that clients
  // that failed together do not retry together.
  std::chrono::milliseconds initial_backoff{100};
  std::chrono::milliseconds max_backoff{5000};
};

// The failures of one call. Not thread-safe.
class Retries {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Nothing is sent again at `deadline` or later. `seed` is for the random
  // parts.
  Retries(const RetryPolicy& policy, std::optional<TimePoint> deadline,
          uint64_t seed);

  // Called when an attempt failed at `now` without being cancelled by the
  // caller. `began`: part of the answer has arrived, by this attempt or an
  // earlier one; `progressed`: this attempt brought something new. Returns how
  // long to wait before the next attempt, or nothing if the call has failed:
  //   - UNAVAILABLE, and the errors that gRPC itself raises when a connection
  //     ends, are retried after a backoff, or after the time that the server
  //     names if that is longer;
  //   - RESOURCE_EXHAUSTED for which the server names a time, after that time,
  //     if this attempt brought nothing;
  //   - everything else has failed.
  std::optional<std::chrono::milliseconds> DelayAfter(const CallError& error,
                                                      bool began,
                                                      bool progressed,
                                                      TimePoint now);

 private:
  // The backoff after failures_ failures.
  std::chrono::milliseconds Backoff();

  const RetryPolicy policy_;
  const std::optional<TimePoint> deadline_;
  std::minstd_rand random_;
  int failures_ = 0;  // In a row.
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_RETRY_POLICY_H_
