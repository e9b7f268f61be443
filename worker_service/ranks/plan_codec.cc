#include "worker_service/ranks/plan_codec.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"

namespace bole {

std::string SerializePlan(const StepPlan& plan) {
  worker::v1::StepPlan message;
  EncodePlan(plan, message);
  return message.SerializeAsString();
}

absl::StatusOr<StepPlan> ParsePlan(std::span<const std::byte> bytes) {
  worker::v1::StepPlan message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InternalError(
        absl::StrCat(bytes.size(), " bytes for ranks are no plan"));
  }
  return DecodePlan(message);
}

}  // namespace bole
