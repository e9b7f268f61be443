#include "clients/call_error.h"

#include <utility>

#include "google/protobuf/any.pb.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/grpc_status.h"

namespace bole {
namespace {

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

}  // namespace

CallError ReadError(const grpc::Status& status) {
  CallError error;
  error.code = status.error_code();
  error.message = status.error_message();
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return error;
  for (const google::protobuf::Any& detail : details.details()) {
    Read(detail, error);
  }
  return error;
}

}  // namespace bole
