// Why a request is not admitted, as a type that its counter and its status
// share.
#ifndef BOLE_SCHEDULER_SERVICE_REFUSAL_H_
#define BOLE_SCHEDULER_SERVICE_REFUSAL_H_

#include <array>
#include <cstddef>
#include <optional>

#include "absl/status/status.h"

namespace bole {

enum class RefusalReason {
  kQueueRequests,  // Too many requests wait for a place in the batch.
  kQueueTokens,    // Their prompts have too many tokens.
  kQueueBytes,     // Their messages have too many bytes.
  kTooManyOpen,    // Too many calls are open.
  kLongMessages,   // Too many long messages wait to be read.
  kHeldOutput,     // The output held for other clients fills its bound.
  kInvalid,        // The message is wrong.
  kNoWorker,       // No worker is connected, or it is shutting down.
  kDraining,       // The server is shutting down.
  kCancelled,      // The client left before its request was admitted.
};

inline constexpr std::array kRefusalReasons = {
    RefusalReason::kQueueRequests, RefusalReason::kQueueTokens,
    RefusalReason::kQueueBytes,    RefusalReason::kTooManyOpen,
    RefusalReason::kLongMessages,  RefusalReason::kHeldOutput,
    RefusalReason::kInvalid,       RefusalReason::kNoWorker,
    RefusalReason::kDraining,      RefusalReason::kCancelled,
};

// Trailing metadata of a refusal that says when to come again. A round takes
// milliseconds and a request seconds: after one there is likely to be room.
inline constexpr char kRetryAfterKey[] = "retry-after-ms";
inline constexpr char kRetryAfterMs[] = "1000";

// As metrics and messages write it: "queue_requests".
const char* NameOf(RefusalReason reason);

// `status`, which also carries `reason` from now on. REQUIRES: it is an error.
absl::Status WithReason(absl::Status status, RefusalReason reason);

// The reason that WithReason() attached; none for any other status.
std::optional<RefusalReason> ReasonOf(const absl::Status& status);

// RESOURCE_EXHAUSTED, for the reason of a bound: "REASON: COUNT, of at most
// MAX".
absl::Status FullError(RefusalReason reason, size_t count, size_t max);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REFUSAL_H_
