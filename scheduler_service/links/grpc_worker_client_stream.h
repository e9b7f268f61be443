// One Execute call to a worker.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_GRPC_WORKER_CLIENT_STREAM_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_GRPC_WORKER_CLIENT_STREAM_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "proto/arena_message.h"
#include "proto/worker.grpc.pb.h"
#include "scheduler_service/links/scheduler_identity.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

// Names its scheduler, writes plans one after the other, gives a sign of life
// when there is none to write, and reports everything that arrives, except the
// end, to a sink. A message that breaks the protocol ends the call.
//
// Thread-safe. May be destroyed once AwaitEnd() has returned.
class WorkerStream final
    : public grpc::ClientBidiReactor<worker::v1::ExecuteRequest,
                                     worker::v1::ExecuteResponse> {
 public:
  using Sink = std::function<void(WorkerNews)>;

  // The sink must outlive the stream; gRPC's threads call it, one at a time.
  WorkerStream(const SchedulerIdentity& scheduler, uint64_t epoch,
               WorkerDescription description, const Sink& sink);

  // Begins the call. Call it once, before everything else.
  void Start(worker::v1::Worker::Stub& stub);

  uint64_t epoch() const { return epoch_; }

  // Queues a plan with its trace. It is dropped if the call is ending.
  void Send(uint64_t plan_number, const StepPlan& plan, const PlanTrace& trace);

  // The same for a sign of life that says which spans have ended.
  void EndSpans(const std::vector<SpanId>& spans);

  // No plan follows: the worker ends the call when it has read all of them.
  void Close();

  // Ends the call now.
  void Cancel(const absl::Status& why);

  // Waits for the end of the call, gives signs of life meanwhile, and cancels
  // the call if nothing is heard for `timeout`. Returns why it ended; never OK.
  absl::Status AwaitEnd(std::chrono::milliseconds timeout);

  // Whether the worker ever answered.
  bool opened() const;
  // Whether the call ended in good order after Close().
  bool closed() const;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  using Clock = std::chrono::steady_clock;

  // Reports response_, or says what is wrong with it.
  absl::Status Take();
  absl::Status TakeOutcome(const worker::v1::StepOutcome& outcome);
  // Begins to give signs of life, at the interval that the worker states.
  void TakeOpened(const worker::v1::Opened& opened);
  void GiveSignOfLife(Clock::time_point now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Queue(worker::v1::ExecuteRequest request);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SchedulerIdentity scheduler_;
  const uint64_t epoch_;
  const Sink& sink_;
  grpc::ClientContext context_;

  // Used only by the reaction to a read.
  ArenaMessage<worker::v1::ExecuteResponse> response_;
  WorkerDescription description_;  // Until it is reported.
  bool draining_ = false;

  mutable Mutex mutex_;
  CondVar changed_;
  // The first one is being written if writing_. References stay valid.
  std::deque<worker::v1::ExecuteRequest> queue_ ABSL_GUARDED_BY(mutex_);
  // A request that was written; the next one reuses its memory.
  worker::v1::ExecuteRequest spare_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;  // Start no operation.
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  Clock::time_point last_heard_ ABSL_GUARDED_BY(mutex_);
  std::chrono::milliseconds sign_interval_ ABSL_GUARDED_BY(mutex_){0};
  // max(): the worker wants none, or has not opened yet.
  Clock::time_point next_sign_ ABSL_GUARDED_BY(mutex_) =
      Clock::time_point::max();
  absl::Status why_ ABSL_GUARDED_BY(mutex_);  // OK: not known yet.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_GRPC_WORKER_CLIENT_STREAM_H_
