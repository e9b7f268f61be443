// Recorded steps, run again.
#ifndef BOLE_WORKER_SERVICE_EVAL_REPLAY_H_
#define BOLE_WORKER_SERVICE_EVAL_REPLAY_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "worker_service/engine.h"
#include "worker_service/recorder.h"

namespace bole {

// Where `got` first differs from `want`, such as "sequence 1: emitted 0: token
// is 5, was 7"; empty if nowhere. Numbers are compared exactly, but
// log-probabilities may differ by `tolerance`.
std::string FirstDifference(const StepResult& got, const StepResult& want,
                            float tolerance);

struct ReplayReport {
  size_t equal = 0;              // Steps with the recorded result.
  size_t first_different = 0;    // Number of the step, where equal < steps.
  std::string first_difference;  // Of that step.
};

// Runs all plans in order, those after a difference too: a plan holds its
// tokens, so one that was drawn otherwise changes no later plan.
// INVALID_ARGUMENT, naming the step: the engine refuses a plan, because it is
// smaller than the one that was recorded for example.
absl::StatusOr<ReplayReport> Replay(Engine& engine,
                                    std::span<const RecordedStep> steps,
                                    float tolerance);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_REPLAY_H_
