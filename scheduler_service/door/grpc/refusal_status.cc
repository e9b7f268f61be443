#include "scheduler_service/door/grpc/refusal_status.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/grpc_status.h"
#include "scheduler_service/jobs/failure.h"

namespace bole {
namespace {

using google::protobuf::util::TimeUtil;

// Collects the details of a status.
class Details {
 public:
  explicit Details(grpc::Status status) : status_(std::move(status)) {
    all_.set_code(status_.error_code());
    all_.set_message(status_.error_message());
  }

  // With the code and the message that the status has.
  grpc::Status ToStatus() const {
    return {status_.error_code(), status_.error_message(),
            all_.SerializeAsString()};
  }

  const std::string& message() const { return all_.message(); }
  void Add(const google::protobuf::Message& detail) {
    all_.add_details()->PackFrom(detail);
  }

 private:
  const grpc::Status status_;
  google::rpc::Status all_;
};

google::rpc::ErrorInfo InfoOf(absl::string_view reason) {
  google::rpc::ErrorInfo info;
  info.set_domain(kErrorDomain);
  info.set_reason(absl::AsciiStrToUpper(reason));
  return info;
}

std::string NameOfReason(const absl::Status& status) {
  if (const auto reason = FailureReasonOf(status)) return NameOf(*reason);
  return absl::StatusCodeToString(status.code());
}

}  // namespace

grpc::StatusCode CodeOf(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kQueueRequests:
    case RefusalReason::kQueueTokens:
    case RefusalReason::kQueueBytes:
    case RefusalReason::kTooManyOpen:
    case RefusalReason::kLongMessages:
    case RefusalReason::kHeldOutput:
    case RefusalReason::kTenantBusy:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case RefusalReason::kInvalid:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case RefusalReason::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case RefusalReason::kUnknownModel:
      return grpc::StatusCode::NOT_FOUND;
    case RefusalReason::kNoWorker:
    case RefusalReason::kDraining:
      return grpc::StatusCode::UNAVAILABLE;
    case RefusalReason::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case RefusalReason::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case RefusalReason::kForbidden:
      return grpc::StatusCode::PERMISSION_DENIED;
  }
  return grpc::StatusCode::UNKNOWN;
}

grpc::Status ToGrpcStatus(const Refusal& refusal) {
  const auto code = static_cast<absl::StatusCode>(CodeOf(refusal.reason));
  Details details(ToGrpcStatus(absl::Status(code, refusal.message)));
  google::rpc::ErrorInfo info = InfoOf(NameOf(refusal.reason));
  if (refusal.bound) {
    auto& metadata = *info.mutable_metadata();
    metadata["count"] = absl::StrCat(refusal.bound->count);
    metadata["max"] = absl::StrCat(refusal.bound->max);
  }
  details.Add(info);
  if (!refusal.field.empty()) {
    google::rpc::BadRequest bad;
    auto& violation = *bad.add_field_violations();
    violation.set_field(refusal.field);
    violation.set_description(details.message());
    details.Add(bad);
  }
  if (refusal.retry_after) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() =
        TimeUtil::MillisecondsToDuration(refusal.retry_after->count());
    details.Add(retry);
  }
  return details.ToStatus();
}

grpc::Status ToGrpcStatus(const absl::Status& status,
                          const std::optional<v1::Usage>& usage) {
  if (status.ok()) return grpc::Status::OK;
  Details details(ToGrpcStatus(status));
  details.Add(InfoOf(NameOfReason(status)));
  if (usage) details.Add(*usage);
  return details.ToStatus();
}

grpc::Status ToUnaryStatus(const absl::Status& answered) {
  return answered.ok() ? grpc::Status::OK : ToGrpcStatus(RefusalOf(answered));
}

}  // namespace bole
