#include "clients/sdk/call_error.h"

#include <utility>

#include "absl/strings/cord.h"
#include "common/field_error.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/grpc_status.h"

namespace bole {
namespace {

// Holds a google.rpc.Status, as it was on the wire.
constexpr char kDetailsPayload[] = "bole/grpc-status-details";

void Read(const google::protobuf::Any& detail, CallError& error) {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  google::rpc::RetryInfo retry;
  v1::Usage usage;
  if (detail.UnpackTo(&info)) {
    if (info.domain() != kErrorDomain) return;
    error.reason = info.reason();
    error.metadata = {info.metadata().begin(), info.metadata().end()};
  } else if (detail.UnpackTo(&bad)) {
    for (const auto& violation : bad.field_violations()) {
      error.violations.push_back(
          {.field = violation.field(), .description = violation.description()});
    }
  } else if (detail.UnpackTo(&retry)) {
    error.retry_after = std::chrono::milliseconds(
        google::protobuf::util::TimeUtil::DurationToMilliseconds(
            retry.retry_delay()));
  } else if (detail.UnpackTo(&usage)) {
    error.usage = std::move(usage);
  }
}

void ReadDetails(const std::string& bytes, CallError& error) {
  google::rpc::Status details;
  if (!details.ParseFromString(bytes)) return;
  for (const google::protobuf::Any& detail : details.details()) {
    Read(detail, error);
  }
}

}  // namespace

ErrorKind CallError::kind() const {
  switch (code) {
    case grpc::StatusCode::OK:
      return ErrorKind::kNone;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return ErrorKind::kInvalid;
    case grpc::StatusCode::UNIMPLEMENTED:
      return ErrorKind::kNotOffered;
    case grpc::StatusCode::NOT_FOUND:
      return ErrorKind::kNotFound;
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorKind::kUnauthenticated;
    case grpc::StatusCode::PERMISSION_DENIED:
      return ErrorKind::kForbidden;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return reason == "SLOW_READER" ? ErrorKind::kSlowReader
                                     : ErrorKind::kOverloaded;
    case grpc::StatusCode::UNAVAILABLE:
      return ErrorKind::kUnavailable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorKind::kDeadline;
    case grpc::StatusCode::CANCELLED:
      return ErrorKind::kCancelled;
    case grpc::StatusCode::DATA_LOSS:
      return ErrorKind::kDiverged;
    default:
      return ErrorKind::kFailed;
  }
}

CallError ReadError(const grpc::Status& status) {
  CallError error;
  error.code = status.error_code();
  error.message = status.error_message();
  ReadDetails(status.error_details(), error);
  return error;
}

CallError ReadError(const absl::Status& status) {
  CallError error;
  error.code = static_cast<grpc::StatusCode>(status.code());
  error.message = std::string(status.message());
  if (const auto details = status.GetPayload(kDetailsPayload)) {
    ReadDetails(std::string(*details), error);
  }
  if (const auto field = FieldOf(status)) {
    error.violations.push_back({.field = *field, .description = error.message});
  }
  return error;
}

absl::Status ToCallStatus(const grpc::Status& status) {
  absl::Status made = FromGrpcStatus(status);
  if (!made.ok() && !status.error_details().empty()) {
    made.SetPayload(kDetailsPayload, absl::Cord(status.error_details()));
  }
  return made;
}

}  // namespace bole
