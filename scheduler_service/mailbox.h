// Everything that reaches the scheduler loop, and the bounds on what waits.
#ifndef BOLE_SCHEDULER_SERVICE_MAILBOX_H_
#define BOLE_SCHEDULER_SERVICE_MAILBOX_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "scheduler_service/request.h"
#include "scheduler_service/worker_client.h"

namespace bole {

// Bounds on the requests that wait for a place in the batch. A request that
// alone exceeds the tokens or bytes is still taken when nothing else waits.
struct AdmissionLimits {
  size_t max_requests = 1024;
  size_t max_tokens = 1 << 20;  // Their prompts together.
  size_t max_bytes = 64 << 20;  // Their messages together.
};

struct AdmissionLoad {
  size_t requests = 0;
  size_t tokens = 0;
  size_t bytes = 0;
};

struct Mail {
  std::vector<std::unique_ptr<Request>> requests;  // Oldest first.
  std::vector<WorkerEvent> events;                 // Oldest first.
  bool draining = false;  // Drain() was called: no request will follow.
  bool stopped = false;   // Stop() was called: end everything now.
};

// The one hand-over to the loop: RPC threads submit requests, worker clients
// post events, the loop takes both. Bounded, so that overload is answered at
// the door and not by running out of memory behind it.
//
// Thread-safe; Take() and Release() are the loop's.
class Mailbox {
 public:
  explicit Mailbox(const AdmissionLimits& limits) : limits_(limits) {}

  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Takes `request` on OK and leaves it untouched on an error, which carries
  // its RefusalReason:
  //   RESOURCE_EXHAUSTED  a bound is reached, which the message names.
  //   UNAVAILABLE         Drain() or Stop() was called.
  absl::Status Submit(std::unique_ptr<Request>& request);

  void Post(WorkerEvent event);

  // The loop should look again: a stream was cancelled.
  void Wake();

  void Drain();
  void Stop();

  // Everything that came since the last call. Waits for something to come
  // (Wake, Drain and Stop included) until `deadline`. After Drain() or Stop()
  // every mail says so, but only the first one does not wait because of it.
  Mail Take(TimePoint deadline);

  // A request counts against the limits from Submit() until the loop releases
  // it: because it runs, or because it ended.
  void Release(const Request& request);

  AdmissionLoad load() const;

 private:
  const AdmissionLimits limits_;
  mutable Mutex mutex_;
  CondVar changed_;
  Mail mail_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  AdmissionLoad load_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_MAILBOX_H_
