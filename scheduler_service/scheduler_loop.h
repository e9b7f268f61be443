// The thread that owns every request.
#ifndef BOLE_SCHEDULER_SERVICE_SCHEDULER_LOOP_H_
#define BOLE_SCHEDULER_SERVICE_SCHEDULER_LOOP_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/jobs/mailbox.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/replicas/replica.h"
#include "scheduler_service/scheduler.h"
#include "scheduler_service/watch/metrics.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// Runs a Scheduler, fed by a mailbox: on its own thread, or, while that one
// waits, on the thread that delivers a worker's answer. Turns never overlap.
//
// Thread-safe, but Start() must be called first.
class SchedulerLoop {
 public:
  // `catalog` and `metrics` must outlive the loop.
  SchedulerLoop(const SchedulerOptions& options, const ModelCatalog& catalog,
                Metrics& metrics);
  ~SchedulerLoop();  // Stop().

  SchedulerLoop(const SchedulerLoop&) = delete;
  SchedulerLoop& operator=(const SchedulerLoop&) = delete;

  // Posts news of a worker; also allowed before Start(). The workers' clients
  // must live until let_go(), or until Stop() has returned.
  void Post(WorkerEvent event) { mailbox_.Post(std::move(event)); }

  // The same for a worker's answer to a plan. It may also take the loop's turn,
  // which calls the clients of workers and the streams of requests. REQUIRES:
  // the caller holds no lock that these take.
  void PostOutcome(WorkerId worker, WorkerOutcome outcome);

  // Both functions are called on the thread that takes the turn. `on_turn` is
  // called after each turn, for measurements; it may be null.
  void Start(Scheduler::LetGo let_go, std::function<void()> on_turn = nullptr);

  // As Mailbox::Submit(). The request's stream reports how it ends:
  //   DEADLINE_EXCEEDED, CANCELLED  as the names say.
  //   INVALID_ARGUMENT  no worker can ever hold prompt and max_tokens.
  //   UNAVAILABLE       no worker is there, or Stop() was called.
  //   INTERNAL          a worker refused a plan; logits were not numbers.
  [[nodiscard]] std::optional<Refusal> Submit(
      std::span<std::unique_ptr<Request>> requests);
  // As Mailbox::Check() and Mailbox::RetryDelay().
  std::optional<Refusal> Check(const std::string& tenant, size_t bytes) const {
    return mailbox_.Check(tenant, bytes);
  }
  std::chrono::milliseconds RetryDelay() const { return mailbox_.RetryDelay(); }

  // From Start() until Stop().
  bool running() const { return running_.load(); }

  // The status after the last round.
  SchedulerStatus status() const;
  AdmissionLoad load() const { return mailbox_.load(); }

  // Refuses new requests, and waits until the present ones have ended, or until
  // `deadline`. Returns whether all have ended.
  bool Drain(TimePoint deadline);

  // Ends every request with UNAVAILABLE, and then the thread.
  void Stop();

 private:
  void Run();
  void TakeTurn(Mail mail);
  void Publish(bool draining);

  const SchedulerOptions options_;
  const ModelCatalog& catalog_;
  Metrics& metrics_;
  Mailbox mailbox_;
  // Set by Start(). Used only by the thread whose turn it is.
  std::unique_ptr<Scheduler> scheduler_;
  std::function<void()> on_turn_;
  std::atomic<bool> running_{false};
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar changed_;
  SchedulerStatus status_ ABSL_GUARDED_BY(mutex_);
  bool idle_after_drain_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_LOOP_H_
