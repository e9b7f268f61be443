// Plans as bytes, on their way from the first rank to the others.
#ifndef BOLE_WORKER_SERVICE_RANKS_PLAN_CODEC_H_
#define BOLE_WORKER_SERVICE_RANKS_PLAN_CODEC_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/step.h"

namespace bole {

// What goes over the wire for the plan (proto/step_codec.h). COST: O(size).
std::string SerializePlan(const StepPlan& plan);

// INVALID_ARGUMENT, or INTERNAL, for bytes that are no plan.
absl::StatusOr<StepPlan> ParsePlan(std::span<const std::byte> bytes);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_PLAN_CODEC_H_
