// Why a request that was admitted did not end well, as a type.
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
  kNoWorker,      // UNAVAILABLE: no worker is there to run it.
  kWorkersLost,   // UNAVAILABLE: workers were lost while they ran it.
  kDraining,      // UNAVAILABLE: the server is stopping.
  kWorkerFailed,  // INTERNAL: a worker refused it, or computed no numbers.
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

// The error of a request that ended so. The reason is a payload of it.
absl::Status Failed(FailureReason reason, absl::string_view message);

// Of an error that Failed() made; of others, nothing.
std::optional<FailureReason> FailureReasonOf(const absl::Status& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_FAILURE_H_
