// The thread that owns every request.
#ifndef BOLE_SCHEDULER_SERVICE_SCHEDULER_LOOP_H_
#define BOLE_SCHEDULER_SERVICE_SCHEDULER_LOOP_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/mailbox.h"
#include "scheduler_service/metrics.h"
#include "scheduler_service/scheduler.h"
#include "scheduler_service/scheduler_status.h"

namespace bole {

// Runs a Scheduler on a thread of its own, fed by a mailbox.
//
// Thread-safe, but Start() comes first.
class SchedulerLoop {
 public:
  // `tokenizer` and `metrics` must outlive the loop.
  SchedulerLoop(const SchedulerOptions& options, const Tokenizer& tokenizer,
                Metrics& metrics);
  ~SchedulerLoop();  // Stop().

  SchedulerLoop(const SchedulerLoop&) = delete;
  SchedulerLoop& operator=(const SchedulerLoop&) = delete;

  // Where a worker client posts its events; may be called before Start().
  std::function<void(WorkerEvent)> worker_sink();

  // `worker` must live until Stop() has returned.
  void Start(WorkerClient& worker);

  // As Mailbox::Submit(). Ends are told on the request's stream:
  //   DEADLINE_EXCEEDED, CANCELLED  as the names say.
  //   INVALID_ARGUMENT  the worker can never hold prompt and max_tokens.
  //   UNAVAILABLE       the worker is gone, or Stop() was called.
  //   INTERNAL          the worker refused a plan.
  absl::Status Submit(std::unique_ptr<Request>& request);

  // A stream was cancelled.
  void Wake() { mailbox_.Wake(); }

  // As it was after the last round.
  SchedulerStatus status() const;
  AdmissionLoad load() const { return mailbox_.load(); }

  // Refuses new requests, and waits until those there are have ended, or until
  // `deadline`. Returns whether all have.
  bool Drain(TimePoint deadline);

  // Ends every request with UNAVAILABLE, and the thread.
  void Stop();

 private:
  void Run(WorkerClient& worker);

  const SchedulerOptions options_;
  const Tokenizer& tokenizer_;
  Metrics& metrics_;
  Mailbox mailbox_;
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar changed_;
  SchedulerStatus status_ ABSL_GUARDED_BY(mutex_);
  bool idle_after_drain_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_LOOP_H_
