// One Generate call.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_GENERATE_CALL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_GENERATE_CALL_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/grpc/response_writer.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/door/watched_call.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"

namespace bole {

// What the calls of a service share. All of it outlives them.
struct GenerateCallContext {
  FrontDoor& door;
  TaskPool& delivery;
  TokenStreamLimits stream_limits;
};

// First the call is admitted: its message is read, which ends with Submit() or
// Refuse(). Then its ResponseWriter answers and ends it. A call that is
// cancelled while its message is being read ends only afterwards, because the
// message is gRPC's until then; while it waits to be read, it ends at once.
//
// Owned by OpenCalls until gRPC is done with it. Thread-safe.
class GenerateCall final
    : public grpc::ServerWriteReactor<v1::GenerateResponse>,
      public WatchedCall,
      public ResponseSink,
      public std::enable_shared_from_this<GenerateCall> {
 public:
  static std::shared_ptr<GenerateCall> Create(
      grpc::CallbackServerContext& context, const GenerateCallContext& shared);

  // Posts `read`, which admits the call, to `pool`. Returns false if too many
  // messages wait there. REQUIRES: the handler of the call has not returned.
  bool ReadLater(TaskPool& pool, std::function<void()> read);

  // Gives the requests streams, the call's deadline and the time at which the
  // call came, and submits them. Then the call ends by itself, unless a refusal
  // is returned, which is the door's or says that the client has left. Without
  // `chunks` none are written.
  std::optional<Refusal> Submit(ReadMessage message, bool chunks);

  // Counts the call as refused, and ends it.
  void Refuse(const Refusal& refusal);

  bool cancelled() const;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  HeldOutput held() const override;
  void EndForReader(ReaderFault fault) override;

  void Send(const v1::GenerateResponse& response) override;
  void SendLast(const v1::GenerateResponse& response) override;
  void End(const absl::Status& status, const v1::Usage& usage) override;
  bool Break(const absl::Status& why) override;

 private:
  // A message that waits to be read.
  struct Reading {
    TaskPool* pool;
    TaskPool::Ticket ticket;
  };

  GenerateCall(grpc::CallbackServerContext& context,
               const GenerateCallContext& shared);

  std::shared_ptr<ResponseWriter> writer() const;

  grpc::CallbackServerContext& context_;
  const GenerateCallContext shared_;
  const TimePoint arrival_;
  const TimePoint deadline_;

  mutable Mutex mutex_;
  std::optional<Reading> reading_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ResponseWriter> writer_ ABSL_GUARDED_BY(mutex_);  // Or null.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // The context may be gone.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_GENERATE_CALL_H_
