#include "scheduler_service/door/grpc/refusal_status.h"

#include <string>

#include "absl/status/status.h"
#include "proto/grpc_status.h"

namespace bole {

grpc::StatusCode CodeOf(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kQueueRequests:
    case RefusalReason::kQueueTokens:
    case RefusalReason::kQueueBytes:
    case RefusalReason::kTooManyOpen:
    case RefusalReason::kLongMessages:
    case RefusalReason::kHeldOutput:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case RefusalReason::kInvalid:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case RefusalReason::kUnknownModel:
      return grpc::StatusCode::NOT_FOUND;
    case RefusalReason::kNoWorker:
    case RefusalReason::kDraining:
      return grpc::StatusCode::UNAVAILABLE;
    case RefusalReason::kCancelled:
      return grpc::StatusCode::CANCELLED;
  }
  return grpc::StatusCode::UNKNOWN;
}

grpc::Status RefuseCall(const Refusal& refusal,
                        grpc::CallbackServerContext& context) {
  if (refusal.retry_after) {
    context.AddTrailingMetadata(kRetryAfterKey,
                                std::to_string(refusal.retry_after->count()));
  }
  return ToGrpcStatus(absl::Status(
      static_cast<absl::StatusCode>(CodeOf(refusal.reason)), refusal.message));
}

}  // namespace bole
