// The limits of a tenant, and how much of them it uses.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_TENANT_LIMITS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_TENANT_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

// The limits of one tenant. Absent: no limit. The amount of a minute may be
// used at once.
struct TenantLimits {
  std::optional<int> requests_per_minute = {};
  std::optional<int> prompt_tokens_per_minute = {};
  std::optional<int> concurrent = {};  // Calls of Generate that run or wait.

  friend bool operator==(const TenantLimits&, const TenantLimits&) = default;
};

// A token bucket that refills in a minute. It may be overdrawn, because a
// prompt is counted after it has been read; then it must recover before more is
// granted. Not thread-safe.
class TokenBucket {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // How long to wait until one can be taken: 0 if at once. A rate is above 0.
  std::chrono::milliseconds WaitFor(int per_minute, TimePoint now);
  void Take(double amount) { taken_ += amount; }

 private:
  double taken_ = 0;  // Missing from a full bucket at time `at_`.
  TimePoint at_ = {};
};

class TenantAccount;

// A place among the requests of a tenant, given back by the destructor.
// Thread-safe.
class TenantSeat {
 public:
  explicit TenantSeat(std::shared_ptr<TenantAccount> account);
  ~TenantSeat();

  TenantSeat(const TenantSeat&) = delete;
  TenantSeat& operator=(const TenantSeat&) = delete;

  void Charge(size_t prompt_tokens);

 private:
  const std::shared_ptr<TenantAccount> account_;
};

// How much of its limits a tenant uses. Thread-safe.
class TenantAccount : public std::enable_shared_from_this<TenantAccount> {
 public:
  using TimePoint = TokenBucket::TimePoint;

  // kTenantBusy, with the time to wait if it is known, if a limit is reached.
  std::optional<Refusal> Check(const TenantLimits& limits, TimePoint now);
  // The same, or else takes a place, which counts as a request.
  std::variant<std::shared_ptr<TenantSeat>, Refusal> Enter(
      const TenantLimits& limits, TimePoint now);

 private:
  friend class TenantSeat;

  std::optional<Refusal> CheckLocked(const TenantLimits& limits, TimePoint now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  TokenBucket requests_ ABSL_GUARDED_BY(mutex_);
  TokenBucket prompt_tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_TENANT_LIMITS_H_
