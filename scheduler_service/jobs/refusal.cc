#include "scheduler_service/jobs/refusal.h"

#include "absl/strings/str_cat.h"
#include "common/field_error.h"

namespace bole {
namespace {

RefusalReason ReasonOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnimplemented:
      return RefusalReason::kUnimplemented;
    case absl::StatusCode::kNotFound:
      return RefusalReason::kUnknownModel;
    case absl::StatusCode::kUnavailable:
      return RefusalReason::kNoWorker;
    default:
      return RefusalReason::kInvalid;
  }
}

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
      return "invalid_argument";
    case RefusalReason::kUnimplemented:
      return "unimplemented";
    case RefusalReason::kUnknownModel:
      return "unknown_model";
    case RefusalReason::kNoWorker:
      return "no_worker";
    case RefusalReason::kDraining:
      return "draining";
    case RefusalReason::kCancelled:
      return "cancelled";
    case RefusalReason::kUnauthenticated:
      return "unauthenticated";
    case RefusalReason::kForbidden:
      return "forbidden";
    case RefusalReason::kTenantBusy:
      return "tenant_busy";
  }
  return "";
}

bool IsFull(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kQueueRequests:
    case RefusalReason::kQueueTokens:
    case RefusalReason::kQueueBytes:
    case RefusalReason::kTooManyOpen:
    case RefusalReason::kLongMessages:
    case RefusalReason::kHeldOutput:
    case RefusalReason::kTenantBusy:
      return true;
    case RefusalReason::kInvalid:
    case RefusalReason::kUnimplemented:
    case RefusalReason::kUnknownModel:
    case RefusalReason::kNoWorker:
    case RefusalReason::kDraining:
    case RefusalReason::kCancelled:
    case RefusalReason::kUnauthenticated:
    case RefusalReason::kForbidden:
      return false;
  }
  return false;
}

Refusal FullRefusal(RefusalReason reason, size_t count, size_t max) {
  return {.reason = reason,
          .message =
              absl::StrCat(NameOf(reason), ": ", count, ", of at most ", max),
          .bound = ReachedBound{.count = count, .max = max}};
}

Refusal RefusalOf(const absl::Status& why) {
  return {.reason = ReasonOf(why.code()),
          .message = std::string(why.message()),
          .field = FieldOf(why).value_or("")};
}

Refusal DrainingRefusal() {
  return {.reason = RefusalReason::kDraining,
          .message = "the server is shutting down"};
}

Refusal CancelledRefusal() {
  return {.reason = RefusalReason::kCancelled,
          .message = "the client cancelled"};
}

}  // namespace bole
