#include "scheduler_service/refusal.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace bole {
namespace {

constexpr char kPayload[] = "bole.refusal_reason";

}  // namespace

const char* NameOf(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kQueueRequests:
      return "queue_requests";
    case RefusalReason::kQueueTokens:
      return "queue_tokens";
    case RefusalReason::kQueueBytes:
      return "queue_bytes";
    case RefusalReason::kTooManyOpen:
      return "too_many_open";
    case RefusalReason::kLongMessages:
      return "long_messages";
    case RefusalReason::kHeldOutput:
      return "held_output";
    case RefusalReason::kInvalid:
      return "invalid";
    case RefusalReason::kNoWorker:
      return "no_worker";
    case RefusalReason::kDraining:
      return "draining";
    case RefusalReason::kCancelled:
      return "cancelled";
  }
  return "";
}

absl::Status WithReason(absl::Status status, RefusalReason reason) {
  BOLE_CHECK(!status.ok());
  status.SetPayload(kPayload, absl::Cord(NameOf(reason)));
  return status;
}

std::optional<RefusalReason> ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  for (const RefusalReason reason : kRefusalReasons) {
    if (*payload == NameOf(reason)) return reason;
  }
  return std::nullopt;
}

absl::Status FullError(RefusalReason reason, size_t count, size_t max) {
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        NameOf(reason), ": ", count, ", of at most ", max)),
                    reason);
}

}  // namespace bole
