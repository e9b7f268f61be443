// Why an admitted request failed.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_FAILURE_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_FAILURE_H_

#include <array>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bole {

enum class FailureReason {
  kCancelled,     // CANCELLED: the client cancelled.
  kDeadline,      // DEADLINE_EXCEEDED: the call's deadline passed.
  kNoWorker,      // UNAVAILABLE: no worker is available.
  kWorkersLost,   // UNAVAILABLE: workers were lost while they ran it.
  kDraining,      // UNAVAILABLE: the server is stopping.
  kWorkerFailed,  // INTERNAL: a worker refused it, or computed invalid logits.
  kSlowReader,    // RESOURCE_EXHAUSTED: the client does not take its output.
};

inline constexpr std::array kFailureReasons = {
    FailureReason::kCancelled,  FailureReason::kDeadline,
    FailureReason::kNoWorker,   FailureReason::kWorkersLost,
    FailureReason::kDraining,   FailureReason::kWorkerFailed,
    FailureReason::kSlowReader,
};

// "slow_reader". Clients read it in capitals.
const char* NameOf(FailureReason reason);

// The error of a request that failed for `reason`, which is its payload.
absl::Status Failed(FailureReason reason, absl::string_view message);

// The reason of an error that Failed() made; nothing for other errors.
std::optional<FailureReason> FailureReasonOf(const absl::Status& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_FAILURE_H_
