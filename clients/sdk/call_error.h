// Why a call of bole.v1 failed, as a value.
//
// The SDK returns absl::Status and absl::StatusOr, and throws nothing. A status
// of a call has the details of the server's error as a payload, so that it can
// be passed on like any other; ReadError() makes them a value again.
#ifndef BOLE_CLIENTS_SDK_CALL_ERROR_H_
#define BOLE_CLIENTS_SDK_CALL_ERROR_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "proto/bole.pb.h"

namespace bole {

struct FieldViolation {
  std::string field;  // Its path: "sampling_params.top_p".
  std::string description;
};

// What a caller may do about an error.
enum class ErrorKind {
  kNone,             // There is no error.
  kInvalid,          // The request is wrong: violations name the field.
  kNotOffered,       // The server does not offer that.
  kNotFound,         // No such model.
  kUnauthenticated,  // The server does not know the caller.
  kForbidden,        // It knows the caller but refuses the call.
  kOverloaded,       // A limit is reached: retry after retry_after.
  kSlowReader,       // The answer was read too slowly; what arrived is valid.
  kUnavailable,      // Unreachable, no worker, or draining: retry.
  kDeadline,         // The time is up; what arrived is valid.
  kCancelled,        // The caller cancelled it.
  kDiverged,         // A resumed stream continued with another text.
  kFailed,           // Anything else: the server failed.
};

// As bole.proto describes the details of an error. Details that the status
// lacks are empty: gRPC raises some errors itself, and these have none.
struct CallError {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message = {};
  std::string reason = {};  // "QUEUE_REQUESTS"
  // Numbers that belong to the reason, by name: {"max", "1024"}.
  std::map<std::string, std::string> metadata = {};
  std::vector<FieldViolation> violations = {};
  std::optional<std::chrono::milliseconds> retry_after = {};
  // What the request used before it failed; absent if it was never admitted.
  std::optional<v1::Usage> usage = {};

  ErrorKind kind() const;
};

// Details of another domain, or of a type that is not known, are left out.
CallError ReadError(const grpc::Status& status);

// The same for a status that the SDK returned.
CallError ReadError(const absl::Status& status);

// Converts `status`, with the details as a payload.
absl::Status ToCallStatus(const grpc::Status& status);

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_CALL_ERROR_H_
