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
  kUnimplemented,    // It requests what is not offered.
  kUnknownModel,     // It names a model that is not served.
  kNoWorker,         // No worker is connected, or it is shutting down.
  kDraining,         // The server is shutting down.
  kCancelled,        // The client left before its request was admitted.
  kUnauthenticated,  // The caller is not known.
  kForbidden,        // The caller may not do this.
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

// The name in metrics and messages: "queue_requests". Clients get it in
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
  // When to retry; absent if waiting does not help.
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
};

// The refusal by a bound that is reached: "REASON: COUNT, of at most MAX". The
// caller adds when to retry.
Refusal FullRefusal(RefusalReason reason, size_t count, size_t max);

// The refusal of a request that could not be read. NOT_FOUND means its model,
// UNAVAILABLE the lack of a worker, UNIMPLEMENTED something that it requests;
// every other error is the client's fault. The field is that of FieldOf(why).
Refusal RefusalOf(const absl::Status& why);

Refusal DrainingRefusal();
Refusal CancelledRefusal();

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_REFUSAL_H_
