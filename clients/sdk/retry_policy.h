// Which failures of a call are tried again, and when.
#ifndef BOLE_CLIENTS_SDK_RETRY_POLICY_H_
#define BOLE_CLIENTS_SDK_RETRY_POLICY_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

#include "clients/sdk/call_error.h"

namespace bole {

struct RetryPolicy {
  // How often a call is sent at most until something of its answer comes.
  // 1: never again.
  int max_attempts = 5;
  // How often in a row, without anything new between, a stream that broke is
  // asked to go on from what came. 0: what breaks has failed.
  int max_resumes = 5;
  // The wait after the first failure. It doubles with each one, up to the
  // longest; a random part of it, up to a half, is left out, so that clients
  // whom one event hit do not come back together.
  std::chrono::milliseconds initial_backoff{100};
  std::chrono::milliseconds max_backoff{5000};
};

// The failures of one call. Not thread-safe.
class Retries {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Nothing is sent again at `deadline` or later. `seed` is of the random
  // parts.
  Retries(const RetryPolicy& policy, std::optional<TimePoint> deadline,
          uint64_t seed);

  // An attempt failed at `now`, not by the caller's will. `began`: something of
  // the answer has come, by this attempt or one before; `progressed`: something
  // new, by this one. Returns how long to wait for the next attempt, or nothing
  // if the call has failed:
  //   - UNAVAILABLE, and what gRPC itself makes of a connection that ends, is
  //     tried again after a backoff, or after the time that the server names if
  //     that is longer;
  //   - RESOURCE_EXHAUSTED for which the server names a time, after that time,
  //     if this attempt brought nothing;
  //   - everything else has failed.
  std::optional<std::chrono::milliseconds> DelayAfter(const CallError& error,
                                                      bool began,
                                                      bool progressed,
                                                      TimePoint now);

 private:
  // Backoff number failures_.
  std::chrono::milliseconds Backoff();

  const RetryPolicy policy_;
  const std::optional<TimePoint> deadline_;
  std::minstd_rand random_;
  int failures_ = 0;  // In a row.
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_RETRY_POLICY_H_
