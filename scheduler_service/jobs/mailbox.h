// Everything that reaches the scheduler loop, and the bounds on what waits.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_MAILBOX_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_MAILBOX_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/jobs/intake_rate.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

struct Mail {
  std::vector<std::unique_ptr<Request>> requests;  // Oldest first.
  std::vector<WorkerEvent> events;                 // Oldest first.
  std::vector<JobId> cancelled;  // May name requests that have ended.
  bool draining = false;         // Drain() was called: no request will follow.
  bool stopped = false;          // Stop() was called: end everything now.
};

// The one hand-over to the loop: RPC threads submit requests and cancel their
// streams, worker clients post events, the loop takes all of it. To wake a
// thread takes as long as half of its turn, so who brings a result may take the
// loop's turn instead. Bounded, so
// that overload is answered at the door and not by running out of memory behind
// it. The bounds leave room for tenants that have little waiting, so that one
// alone cannot keep the others out (CheckAdmission()).
//
// Thread-safe; Take() and Release() are the loop's. Outlives every stream whose
// request has not ended.
class Mailbox {
 public:
  using Clock = std::function<TimePoint()>;

  // `clock` measures how fast what waits is taken in.
  explicit Mailbox(const AdmissionLimits& limits,
                   Clock clock = &std::chrono::steady_clock::now)
      : limits_(limits), clock_(std::move(clock)) {}

  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Takes the requests of a call, at least one and of one tenant, numbers them,
  // and hears of each when its stream is cancelled; or refuses all, and leaves
  // them untouched: because a bound is reached, or because Drain() or Stop()
  // was called.
  [[nodiscard]] std::optional<Refusal> Submit(
      std::span<std::unique_ptr<Request>> requests);

  // Whether Submit() would refuse a request of this tenant and of so many bytes
  // now, whatever its prompt is.
  std::optional<Refusal> Check(const std::string& tenant, size_t bytes) const;

  // When a client that is refused now should come again.
  std::chrono::milliseconds RetryDelay() const;

  void Post(WorkerEvent event);

  // The same; but if the loop waits in Take(), its mail is taken here, this
  // event included. The caller is then to do with it, on its own thread, what
  // the loop would do, and to call Return(). Until then Take() waits. Empty:
  // the loop takes it.
  [[nodiscard]] std::optional<Mail> PostOrTake(WorkerEvent event);

  // Ends what PostOrTake() began. The loop waits until `deadline` from now on,
  // and is not woken unless it has mail or has to wait for less time.
  void Return(TimePoint deadline);

  void Drain();
  void Stop();

  // Everything that came since the last call. Waits for something to come
  // (Drain and Stop included) until `deadline`. After Drain() or Stop()
  // every mail says so, but only the first one does not wait because of it.
  Mail Take(TimePoint deadline);

  // A request counts against the limits from Submit() until the loop releases
  // it: because it runs, or else because it ended.
  void Release(const Request& request, bool runs);

  // What waits, summed over all tenants.
  AdmissionLoad load() const;

 private:
  void Cancel(JobId job);
  bool HasMail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Mail TakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Refusal> CheckLocked(const std::string& tenant,
                                     const AdmissionLoad& more) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AdmissionLimits limits_;
  const Clock clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  Mail mail_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  // The loop is in Take(), until this time if no mail comes.
  bool loop_waits_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint deadline_ ABSL_GUARDED_BY(mutex_);
  bool lent_ ABSL_GUARDED_BY(mutex_) = false;  // By PostOrTake().
  uint64_t num_accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  AdmissionLoad load_ ABSL_GUARDED_BY(mutex_);
  // The parts of load_ of those tenants that have one.
  absl::flat_hash_map<std::string, AdmissionLoad> tenants_
      ABSL_GUARDED_BY(mutex_);
  IntakeRate intake_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_MAILBOX_H_
