// The status of a call over gRPC that failed: code and message, and the details
// that bole.proto tells of.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_

#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "proto/bole.pb.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

// What gRPC calls a reason.
grpc::StatusCode CodeOf(RefusalReason reason);

// Of a call that is not admitted.
grpc::Status ToGrpcStatus(const Refusal& refusal);

// Of a call that failed after it was admitted: its reason is that of
// FailureReasonOf(), or else the name of the code. `usage`, if there is any, is
// what it used so far. OK becomes OK.
grpc::Status ToGrpcStatus(const absl::Status& status,
                          const std::optional<v1::Usage>& usage);

// Of a unary call: OK, or that of RefusalOf(answered).
grpc::Status ToUnaryStatus(const absl::Status& answered);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_
