// Why a request is not admitted, as a type.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_REFUSAL_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_REFUSAL_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace bole {

enum class RefusalReason {
  kQueueRequests,    // Too many requests wait for a place in the batch.
  kQueueTokens,      // Their prompts have too many tokens.
  kQueueBytes,       // Their messages have too many bytes.
  kTooManyOpen,      // Too many calls are open.
  kLongMessages,     // Too many long messages wait to be read.
  kHeldOutput,       // The output held for other clients fills its bound.
  kInvalid,          // The message is wrong.
  kUnimplemented,    // It asks for what is not offered.
  kUnknownModel,     // It names a model that is not served.
  kNoWorker,         // No worker is connected, or it is shutting down.
  kDraining,         // The server is shutting down.
  kCancelled,        // The client left before its request was admitted.
  kUnauthenticated,  // Nobody knows who asks.
  kForbidden,        // Who asks may not do this.
  kTenantBusy,       // The tenant is at its own limits.
};

inline constexpr std::array kRefusalReasons = {
    RefusalReason::kQueueRequests,   RefusalReason::kQueueTokens,
    RefusalReason::kQueueBytes,      RefusalReason::kTooManyOpen,
    RefusalReason::kLongMessages,    RefusalReason::kHeldOutput,
    RefusalReason::kInvalid,         RefusalReason::kUnimplemented,
    RefusalReason::kUnknownModel,    RefusalReason::kNoWorker,
    RefusalReason::kDraining,        RefusalReason::kCancelled,
    RefusalReason::kUnauthenticated, RefusalReason::kForbidden,
    RefusalReason::kTenantBusy,
};

// As metrics and messages write it: "queue_requests". Clients read it in
// capitals.
const char* NameOf(RefusalReason reason);

// Whether a bound is reached: the same request may be admitted a little later.
bool IsFull(RefusalReason reason);

// A bound that is reached.
struct ReachedBound {
  size_t count;  // What there is already.
  size_t max;

  friend bool operator==(const ReachedBound&, const ReachedBound&) = default;
};

// A request that is not admitted. What a protocol calls this, and what is
// counted, follows from the reason alone; the message is for people.
struct Refusal {
  RefusalReason reason;
  std::string message;
  // The path of the field that is at fault; empty if none is.
  std::string field = {};
  std::optional<ReachedBound> bound = std::nullopt;
  // When to come again; absent if waiting does not help.
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
};

// A bound is reached: "REASON: COUNT, of at most MAX". Who refuses says when to
// come again.
Refusal FullRefusal(RefusalReason reason, size_t count, size_t max);

// Why a request could not be read: NOT_FOUND is its model, UNAVAILABLE the want
// of a worker, UNIMPLEMENTED what it asks for, and every other error is the
// client's to mend. The field is that of FieldOf(why).
Refusal RefusalOf(const absl::Status& why);

Refusal DrainingRefusal();
Refusal CancelledRefusal();

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_REFUSAL_H_
