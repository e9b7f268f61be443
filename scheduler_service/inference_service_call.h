// One Generate call.
#ifndef BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_CALL_H_
#define BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_CALL_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.pb.h"
#include "scheduler_service/request.h"
#include "scheduler_service/response_codec.h"
#include "scheduler_service/scheduler_loop.h"
#include "scheduler_service/token_stream.h"

namespace bole {

// Writes one request's stream to its client, one message at a time: what comes
// while a message is on its way is merged into the next. So a client that reads
// slowly holds up nobody, and its messages grow.
//
// Begins with an admission, which ends with Submit() or Refuse(). A call that
// is cancelled meanwhile ends after it, so that the message can be read until
// then.
//
// Lives until gRPC is done with it, and by a shared pointer to itself: the loop
// may still write to the stream then, which knows this call weakly.
class GenerateCall final
    : public grpc::ServerWriteReactor<v1::GenerateResponse>,
      public std::enable_shared_from_this<GenerateCall> {
 public:
  // `num_open` counts those that live. The references must outlive the call.
  static std::shared_ptr<GenerateCall> Create(
      grpc::CallbackServerContext& context, SchedulerLoop& loop,
      std::atomic<size_t>& num_open);

  // Gives the request a stream, the call's deadline and the time at which the
  // call came, and submits it. The error is SchedulerLoop::Submit()'s, or
  // CANCELLED. After an OK the call ends by itself; without one it is to be
  // refused. With `complete_only` no chunks are written.
  absl::Status Submit(std::unique_ptr<Request> request, bool complete_only);

  // Ends the call. The client should come again after `retry_after_ms`, if any.
  void Refuse(const absl::Status& why, std::optional<int> retry_after_ms);

  bool cancelled() const;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  GenerateCall(grpc::CallbackServerContext& context, SchedulerLoop& loop,
               std::atomic<size_t>& num_open);

  // Writes what there is, unless the call is busy.
  void Pump();
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Abandon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::CallbackServerContext& context_;
  SchedulerLoop& loop_;
  std::atomic<size_t>& num_open_;
  const TimePoint arrival_;
  const TimePoint deadline_;
  std::shared_ptr<GenerateCall> self_;  // Until OnDone().

  mutable Mutex mutex_;
  std::shared_ptr<TokenStream> stream_ ABSL_GUARDED_BY(mutex_);
  bool complete_only_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<ResponseEncoder> encoder_ ABSL_GUARDED_BY(mutex_);
  // Came from the stream, and is not yet written.
  std::optional<absl::StatusOr<Completion>> end_ ABSL_GUARDED_BY(mutex_);
  // gRPC reads it until the write is done.
  v1::GenerateResponse response_ ABSL_GUARDED_BY(mutex_);
  // The message is being read, or an answer written: end nothing.
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_CALL_H_
