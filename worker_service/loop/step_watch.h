// Detects a step that hangs.
#ifndef BOLE_WORKER_SERVICE_LOOP_STEP_WATCH_H_
#define BOLE_WORKER_SERVICE_LOOP_STEP_WATCH_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/step.h"

namespace bole {

// The name of a plan in messages: "plan 17 of stream 3 (2 prefill chunks of 512
// tokens, 8 trees of 256 nodes, 4 rounds)". `number` is its sequence number on
// the stream.
std::string PlanName(uint64_t stream, uint64_t number, const StepPlan& plan);

// Knows which step runs and when it last gave a result. The thread that runs
// steps reports to it. Another thread calls Check() from time to time, because
// the first one waits for the device and cannot.
//
// Thread-safe. COST: a mutex that is almost never contended, a few tens of
// nanoseconds for each call.
class StepWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // A step hangs once it has given no result for longer than `timeout`.
  explicit StepWatch(Clock::duration timeout) : timeout_(timeout) {}

  // A step begins. REQUIRES: no other step runs, and `plan` lives until End().
  void Begin(uint64_t stream, uint64_t number, const StepPlan& plan,
             Clock::time_point now);
  // The running step gave the result of a round.
  void AddResult(Clock::time_point now);
  void End();

  // INTERNAL, naming the plan and what to do, if the running step hangs.
  absl::Status Check(Clock::time_point now) const;

 private:
  struct Running {
    uint64_t stream;
    uint64_t number;
    const StepPlan* plan;
    int results;
    Clock::time_point last_result;  // Or the start of the step.
  };

  const Clock::duration timeout_;
  mutable Mutex mutex_;
  std::optional<Running> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOOP_STEP_WATCH_H_
