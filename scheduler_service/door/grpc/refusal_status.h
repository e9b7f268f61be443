// How a call over gRPC ends that is refused.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

// Trailing metadata of a refusal: milliseconds after which to come again.
inline constexpr char kRetryAfterKey[] = "retry-after-ms";

// What gRPC calls a reason.
grpc::StatusCode CodeOf(RefusalReason reason);

// The status that the call is to end with. Adds to the trailing metadata when
// to come again, if the refusal says so.
grpc::Status RefuseCall(const Refusal& refusal,
                        grpc::CallbackServerContext& context);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_
