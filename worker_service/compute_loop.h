// The thread that runs plans.
#ifndef BOLE_WORKER_SERVICE_COMPUTE_LOOP_H_
#define BOLE_WORKER_SERVICE_COMPUTE_LOOP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/flight/flight_recorder.h"
#include "common/mutex.h"
#include "common/step.h"
#include "worker_service/step_watch.h"
#include "worker_service/ticker.h"

namespace bole {

// The answer to one plan.
struct ComputeOutcome {
  uint64_t stream;
  uint64_t sequence;
  // INVALID_ARGUMENT: the plan was refused, and nothing was touched.
  // INTERNAL: the engine failed; its memory is undefined and nothing more runs.
  absl::StatusOr<StepResult> result;
  int prefill_tokens = 0;
  int nodes = 0;  // In the forest of the round.
  // Before it.
  int slot_copies = 0;
  int page_copies = 0;
  // In the engine, since the step began or gave its previous result; 0 for a
  // plan that was refused.
  double step_seconds = 0;

  bool is_last() const { return !result.ok() || result->is_last; }
};

struct ComputeLoopOptions {
  StepLimits limits;
  bool has_drafter = false;
  // The engine. Called by the loop's thread alone, with plans that
  // ValidatePlan() accepts. Any error means that memory is undefined.
  std::function<absl::Status(const StepPlan& plan, const OnRound& on_round)>
      step;
  // Called by the loop's thread, in the order of the plans and rounds.
  std::function<void(ComputeOutcome outcome)> on_outcome;
  // A step that gives no result for longer than this hangs; 0: no limit.
  std::chrono::milliseconds step_timeout{0};
  // Called at most once, by a thread of its own, with INTERNAL naming the plan
  // that hangs. The loop's thread is still in that step, and Stop() would wait
  // for it.
  std::function<void(const absl::Status& why)> on_hang = {};
  // Of StepFields(): gets every round, when it begins and again when it ends;
  // written by the loop's thread alone. May be null.
  FlightRecorder* flight = nullptr;
};

// Validates plans and runs them one after the other on a thread of its own. At
// most one stream is open, and only plans of that one begin; a step that runs
// when its stream ends is finished first, so two streams never touch memory at
// the same time. The caller numbers the streams; no number is 0 or comes again.
//
// Thread-safe. Stop() and the destructor must not be called by on_outcome or
// on_hang.
class ComputeLoop {
 public:
  // Plans that may be queued, not counting the one that runs.
  static constexpr size_t kMaxWaiting = 4;

  explicit ComputeLoop(ComputeLoopOptions options);
  ~ComputeLoop();  // Stop().

  ComputeLoop(const ComputeLoop&) = delete;
  ComputeLoop& operator=(const ComputeLoop&) = delete;

  // Ends the previous stream: its queued plans are dropped. The outcome of a
  // plan that runs is still reported.
  void Open(uint64_t stream);
  // Nothing happens if another stream is open.
  void Close(uint64_t stream);

  // Queues a plan, which is dropped if `stream` is not open.
  // RESOURCE_EXHAUSTED: kMaxWaiting plans are queued.
  absl::Status Submit(uint64_t stream, uint64_t sequence, StepPlan plan);

  // Finishes the step that runs and drops the others.
  void Stop();

 private:
  struct Job {
    uint64_t stream;
    uint64_t sequence;
    StepPlan plan;
    std::chrono::steady_clock::time_point queued;
    int waiting = 0;  // Those behind it when it was taken.
  };

  void Run();
  // Reports every outcome. Returns whether the engine still works.
  bool RunJob(const Job& job);
  void RefuseJob(const Job& job, absl::Status why);
  void CheckStep();

  const ComputeLoopOptions options_;
  StepWatch watch_;
  bool hang_reported_ = false;  // For CheckStep() alone.
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t stream_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none is open.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex join_mutex_;
  // Both threads use the members above, and start last.
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
  std::optional<Ticker> ticker_;  // Calls CheckStep(), if there is a timeout.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_COMPUTE_LOOP_H_
