// The status of a gRPC call that failed: code and message, and the details that
// bole.proto documents.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_

#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "proto/bole.pb.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

// The status code that gRPC has for a reason.
grpc::StatusCode CodeOf(RefusalReason reason);

// The status of a call that is not admitted.
grpc::Status ToGrpcStatus(const Refusal& refusal);

// The status of a call that failed after it was admitted. Its reason is that of
// FailureReasonOf(), or else the name of the code. `usage`, if present, is what
// the call used so far. OK becomes OK.
grpc::Status ToGrpcStatus(const absl::Status& status,
                          const std::optional<v1::Usage>& usage);

// The status of a unary call: OK, or the status of RefusalOf(answered).
grpc::Status ToUnaryStatus(const absl::Status& answered);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_REFUSAL_STATUS_H_
