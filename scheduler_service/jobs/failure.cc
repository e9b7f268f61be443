#include "scheduler_service/jobs/failure.h"

#include "absl/strings/cord.h"

namespace bole {
namespace {

constexpr char kPayload[] = "bole/failure";

absl::StatusCode CodeOf(FailureReason reason) {
  switch (reason) {
    case FailureReason::kCancelled:
      return absl::StatusCode::kCancelled;
    case FailureReason::kDeadline:
      return absl::StatusCode::kDeadlineExceeded;
    case FailureReason::kNoWorker:
    case FailureReason::kWorkersLost:
    case FailureReason::kDraining:
      return absl::StatusCode::kUnavailable;
    case FailureReason::kWorkerFailed:
      return absl::StatusCode::kInternal;
    case FailureReason::kSlowReader:
      return absl::StatusCode::kResourceExhausted;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

const char* NameOf(FailureReason reason) {
  switch (reason) {
    case FailureReason::kCancelled:
      return "cancelled";
    case FailureReason::kDeadline:
      return "deadline";
    case FailureReason::kNoWorker:
      return "no_worker";
    case FailureReason::kWorkersLost:
      return "workers_lost";
    case FailureReason::kDraining:
      return "draining";
    case FailureReason::kWorkerFailed:
      return "worker_failed";
    case FailureReason::kSlowReader:
      return "slow_reader";
  }
  return "";
}

absl::Status Failed(FailureReason reason, absl::string_view message) {
  absl::Status status(CodeOf(reason), message);
  status.SetPayload(kPayload, absl::Cord(NameOf(reason)));
  return status;
}

std::optional<FailureReason> FailureReasonOf(const absl::Status& status) {
  const auto name = status.GetPayload(kPayload);
  if (!name) return std::nullopt;
  for (const FailureReason reason : kFailureReasons) {
    if (*name == NameOf(reason)) return reason;
  }
  return std::nullopt;
}

}  // namespace bole
