// One Execute call: it checks the protocol, and sends its messages one after
// the other.
#ifndef BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_STREAM_H_
#define BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_STREAM_H_

#include <chrono>
#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/net/handled_calls.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "grpcpp/support/server_callback.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "worker_service/loop/compute_loop.h"
#include "worker_service/serving/scheduler_seat.h"

namespace bole {

// Checks the epochs and sequence numbers of incoming messages, decodes them,
// and queues outgoing ones. Reads the next plan only while few are unanswered,
// so that a scheduler that sends without end is slowed down by gRPC's flow
// control.
//
// Deletes itself when gRPC is done with it, after Owner::OnClosed(). Until
// then the owner may call it from any thread; it calls the owner without
// holding a lock.
class ExecuteStream final
    : public grpc::ServerBidiReactor<worker::v1::ExecuteRequest,
                                     worker::v1::ExecuteResponse> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The first request arrived. Calls stream.SendOpened(), or returns the
    // error with which the stream ends.
    virtual absl::Status OnOpen(ExecuteStream& stream,
                                const SchedulerHello& hello) = 0;
    // A plan arrived, with its trace data. Queues it to be answered by
    // Answer(), or returns the error with which the stream ends.
    virtual absl::Status OnPlan(const ExecuteStream& stream, uint64_t sequence,
                                StepPlan plan, const PlanTrace& trace) = 0;
    // A heartbeat arrived, with the spans that have ended.
    virtual void OnHeard(const ExecuteStream& stream,
                         const PlanTrace& trace) = 0;
    // A request was malformed.
    virtual void OnMalformed() = 0;
    // The last call for this stream.
    virtual void OnClosed(const ExecuteStream& stream) = 0;
  };

  // The full name of the method.
  static constexpr char kMethod[] = "/bole.worker.v1.Worker/Execute";

  // Both must outlive the stream. `handled`, which may be null, counts it when
  // it ends.
  ExecuteStream(Owner& owner, HandledCalls* handled);

  void SendOpened(std::chrono::milliseconds heartbeat_interval);
  // Does nothing while an earlier heartbeat is still queued.
  void SendHeartbeat(bool draining);
  void Answer(const ComputeOutcome& outcome);
  // Queued messages are not sent any more, and later calls do nothing.
  void End(const absl::Status& status);

  // Whether reading is paused because too many plans are unanswered.
  bool reading_paused() const;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  absl::Status TakeHello();
  absl::Status TakeRequest();
  absl::Status TakePlan(const PlanTrace& trace);
  // Why request_ breaks the rules, or OK.
  absl::Status CheckHello() const;
  absl::Status CheckRequest() const;
  void ReadOrPause();
  void Send(worker::v1::ExecuteResponse response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Owner& owner_;
  HandledCalls* const handled_;

  // Used by gRPC between StartRead() and its OnReadDone(), otherwise by the
  // thread that handles the request.
  worker::v1::ExecuteRequest request_;
  bool opened_ = false;
  uint64_t epoch_ = 0;          // Does not change once the stream is open.
  uint64_t next_sequence_ = 1;  // The number that the next plan must have.

  mutable Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // The first one is being written if writing_. References stay valid.
  std::deque<worker::v1::ExecuteResponse> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool heartbeat_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_paused_ ABSL_GUARDED_BY(mutex_) = false;
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_STREAM_H_
