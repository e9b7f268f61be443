// The thread that runs plans.
#ifndef BOLE_WORKER_SERVICE_LOOP_COMPUTE_LOOP_H_
#define BOLE_WORKER_SERVICE_LOOP_COMPUTE_LOOP_H_

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
#include "worker_service/loop/step_watch.h"
#include "worker_service/loop/ticker.h"

namespace bole {

// The answer to a plan or, if it is a lease, to one of its rounds.
struct ComputeOutcome {
  uint64_t stream;
  uint64_t sequence;
  // INVALID_ARGUMENT: the plan was refused, and nothing was touched.
  // INTERNAL: the engine failed; its memory is undefined and nothing more runs.
  absl::StatusOr<StepResult> result;
  int prefill_tokens = 0;
  int nodes = 0;  // In the forest of the round.
  // Copies that were made before the round.
  int slot_copies = 0;
  int page_copies = 0;
  // The time in the engine since the step began or gave its previous result; 0
  // for a plan that was refused.
  double step_seconds = 0;

  bool is_last() const { return !result.ok() || result->is_last; }
};

struct ComputeLoopOptions {
  StepLimits limits;
  bool has_drafter = false;
  // Runs a plan on the engine. Called by the loop's thread alone, with plans
  // that ValidatePlan() accepts. After any error the engine's memory is
  // undefined.
  std::function<absl::Status(const StepPlan& plan, const OnRound& on_round)>
      step;
  // Called by the loop's thread, in the order of the plans and rounds.
  std::function<void(ComputeOutcome outcome)> on_outcome;
  // A step that gives no result for longer than this hangs; 0: no limit.
  std::chrono::milliseconds step_timeout{0};
  // Called at most once, by a separate thread, with INTERNAL naming the plan
  // that hangs. The loop's thread is still in that step, and Stop() would wait
  // for it.
  std::function<void(const absl::Status& why)> on_hang = {};
  // A recorder with the fields StepFields(), to which the loop's thread alone
  // writes. Every round is recorded when it begins and again when it ends. May
  // be null.
  FlightRecorder* flight = nullptr;
};

// Validates plans and runs them one after the other on a thread of its own. At
// most one stream is open, and only its plans are started. A step that is
// running when its stream ends is finished before the next one starts, so two
// streams never touch memory at the same time. The caller numbers the streams;
// a number is not 0 and is never used again.
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

  // Opens a stream and ends the previous one, whose queued plans are dropped.
  // The outcome of a plan that is running is still reported.
  void Open(uint64_t stream);
  // Ends the stream in the same way. Does nothing if another stream is open.
  void Close(uint64_t stream);

  // Queues a plan, which is dropped if `stream` is not open.
  // RESOURCE_EXHAUSTED: kMaxWaiting plans are queued.
  absl::Status Submit(uint64_t stream, uint64_t sequence, StepPlan plan);

  // Finishes the running step and drops the queued plans.
  void Stop();

 private:
  struct Job {
    uint64_t stream;
    uint64_t sequence;
    StepPlan plan;
    std::chrono::steady_clock::time_point queued;
    int waiting = 0;  // Plans queued after it when it was taken.
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
  // Both threads use the members above, so they are started last.
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
  std::optional<Ticker> ticker_;  // Calls CheckStep(), if there is a timeout.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOOP_COMPUTE_LOOP_H_
