// Why a call of bole.v1 failed, read from its gRPC status.
#ifndef BOLE_CLIENTS_CALL_ERROR_H_
#define BOLE_CLIENTS_CALL_ERROR_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "grpcpp/support/status.h"
#include "proto/bole.pb.h"

namespace bole {

struct FieldViolation {
  std::string field;  // Its path: "sampling_params.top_p".
  std::string description;
};

// As bole.proto describes the details of an error. What the status does not
// have is empty: gRPC makes some errors itself, and these have no details.
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
};

// Details of another domain, or of a type that is not known, are left out.
CallError ReadError(const grpc::Status& status);

}  // namespace bole

#endif  // BOLE_CLIENTS_CALL_ERROR_H_
