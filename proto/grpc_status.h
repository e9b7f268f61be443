// absl::Status to grpc::Status and back: the one place where either becomes the
// other.
#ifndef BOLE_PROTO_GRPC_STATUS_H_
#define BOLE_PROTO_GRPC_STATUS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace bole {

// Messages travel in the trailing metadata, which peers bound to 8 KiB: percent
// encoded, and up to twice more in the details of an error.
inline constexpr size_t kMaxStatusMessageBytes = 1024;

// The domain of the reasons in ErrorInfo.
inline constexpr char kErrorDomain[] = "bole";

// The same code, and the message cut to kMaxStatusMessageBytes. Payloads are
// left out.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same code and message. A code that gRPC does not define is UNKNOWN.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace bole

#endif  // BOLE_PROTO_GRPC_STATUS_H_
