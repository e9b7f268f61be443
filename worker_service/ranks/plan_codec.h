// Serialisation of the plans that the first rank sends to the others.
#ifndef BOLE_WORKER_SERVICE_RANKS_PLAN_CODEC_H_
#define BOLE_WORKER_SERVICE_RANKS_PLAN_CODEC_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/step.h"

namespace bole {

// The plan's encoding on the wire (proto/step_codec.h). COST: O(size).
std::string SerializePlan(const StepPlan& plan);

// INVALID_ARGUMENT or INTERNAL if the bytes are not a plan.
absl::StatusOr<StepPlan> ParsePlan(std::span<const std::byte> bytes);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_PLAN_CODEC_H_
