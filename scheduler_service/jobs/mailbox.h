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

// The only way to the loop: RPC threads submit requests and cancel their
// streams, worker clients post events, and the loop takes all of it. Waking a
// thread takes half as long as its turn, so the thread that brings a result may
// take the loop's turn instead. The mailbox is bounded, so that overload leads
// to refusals at the door and not to a lack of memory. The bounds leave room
// for tenants that have little waiting, so that one alone cannot keep the
// others out (CheckAdmission()).
//
// Thread-safe; Take() and Release() are for the loop only. Outlives every
// stream whose request has not ended.
class Mailbox {
 public:
  using Clock = std::function<TimePoint()>;

  // `clock` measures how fast waiting requests are taken in.
  explicit Mailbox(const AdmissionLimits& limits,
                   Clock clock = &std::chrono::steady_clock::now)
      : limits_(limits), clock_(std::move(clock)) {}

  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Accepts the requests of a call, at least one and all of one tenant, numbers
  // them, and is told when their streams are cancelled; or refuses all, and
  // leaves them untouched: because a bound is reached, or because Drain() or
  // Stop() was called.
  [[nodiscard]] std::optional<Refusal> Submit(
      std::span<std::unique_ptr<Request>> requests);

  // Returns why Submit() would refuse a request of this tenant and of `bytes`
  // bytes now, whatever its prompt is, if it would.
  std::optional<Refusal> Check(const std::string& tenant, size_t bytes) const;

  // How long a client that is refused now should wait before it retries.
  std::chrono::milliseconds RetryDelay() const;

  void Post(WorkerEvent event);

  // The same; but if the loop waits in Take(), returns its mail, this event
  // included. The caller then has to do with it, on its own thread, what the
  // loop would do, and to call Return(). Until then Take() waits. Empty: the
  // loop takes the mail.
  [[nodiscard]] std::optional<Mail> PostOrTake(WorkerEvent event);

  // Ends what PostOrTake() began. From now on the loop waits until `deadline`;
  // it is woken only if it has mail or is to wait for less time than before.
  void Return(TimePoint deadline);

  void Drain();
  void Stop();

  // Returns everything that has arrived since the last call. Waits for
  // something to arrive (Drain and Stop included) until `deadline`. After
  // Drain() or Stop() every mail says so, but only the first one is returned at
  // once because of it.
  Mail Take(TimePoint deadline);

  // A request counts against the limits from Submit() until the loop releases
  // it: because it runs, or because it has ended without running.
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
  // The loop is in Take(), until `deadline_` if no mail arrives.
  bool loop_waits_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint deadline_ ABSL_GUARDED_BY(mutex_);
  bool lent_ ABSL_GUARDED_BY(mutex_) = false;  // Taken by PostOrTake().
  uint64_t num_accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  AdmissionLoad load_ ABSL_GUARDED_BY(mutex_);
  // The part of load_ of each tenant that has one.
  absl::flat_hash_map<std::string, AdmissionLoad> tenants_
      ABSL_GUARDED_BY(mutex_);
  IntakeRate intake_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_MAILBOX_H_
