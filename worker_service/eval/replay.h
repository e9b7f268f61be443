// Runs recorded steps again.
#ifndef BOLE_WORKER_SERVICE_EVAL_REPLAY_H_
#define BOLE_WORKER_SERVICE_EVAL_REPLAY_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "worker_service/engine/engine.h"
#include "worker_service/loop/recorder.h"

namespace bole {

// Describes where `got` first differs from `want`, such as "sequence 1: emitted
// 0: token is 5, was 7"; empty if they are equal. Numbers are compared exactly,
// except that log-probabilities may differ by `tolerance`.
std::string FirstDifference(const StepResult& got, const StepResult& want,
                            float tolerance);

struct ReplayReport {
  size_t equal = 0;  // Steps that reproduced the recorded results.
  // The recording of the last step lacks results, and the step reproduced those
  // that were recorded and then ended without an error. It does not count as
  // equal.
  bool has_incomplete = false;
  // The first step with another result, if any, and how it differs.
  std::optional<size_t> first_different = std::nullopt;
  std::string first_difference;
};

// Runs all plans in order, even after a difference: a plan contains its tokens,
// so a token that is drawn differently changes no later plan. If the recording
// ends with a plan without results, that plan runs as well, since it may be the
// one at which the worker failed.
// Errors name the step: INVALID_ARGUMENT if the engine refuses a plan, for
// example because it is smaller than the one that was recorded; others are the
// engine's.
absl::StatusOr<ReplayReport> Replay(Engine& engine,
                                    std::span<const RecordedStep> steps,
                                    float tolerance);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_REPLAY_H_
