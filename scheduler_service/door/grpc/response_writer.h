// Writes one request's output to its client, one message at a time.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_RESPONSE_WRITER_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_RESPONSE_WRITER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/grpc/response_codec.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/door/watched_call.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"

namespace bole {

// The call that the messages go to. Thread-safe.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;

  // Encodes the message and starts to write it. ResponseWriter::OnWriteDone()
  // follows, and until then `response` does not change.
  virtual void Send(const v1::GenerateResponse& response) = 0;
  // The same for the last message, after which the call ends with OK. Nothing
  // follows, and `response` does not change any more.
  virtual void SendLast(const v1::GenerateResponse& response) = 0;
  // Ends the call. REQUIRES: no write is under way.
  virtual void End(const absl::Status& status) = 0;
  // Makes a write that is under way, or that is about to start, fail, and tells
  // the client why. Returns false if the call is gone already.
  virtual bool Break(const absl::Status& why) = 0;
};

struct ResponseWriterOptions {
  bool complete_only = false;  // No chunks.
  TokenStreamLimits stream = {};
  // Called once if the reader is at fault for the end of the call, if set.
  std::function<void(ReaderFault)> on_fault = nullptr;
};

// The reader of a request's stream. It takes a delta, encodes it, sends it, and
// takes the next one when the write is done; meanwhile the stream merges what
// comes. So a slow client holds up nobody, and costs memory for its own output
// alone, which is bounded.
//
// The thread that appends to the stream, which is the loop's, only posts a task
// to `delivery`: deltas are encoded by the threads of that pool and by those
// that call OnWriteDone(). They hold no lock meanwhile.
//
// Thread-safe.
class ResponseWriter : public std::enable_shared_from_this<ResponseWriter> {
 public:
  // `delivery` must outlive the writer, `sink` may go before it.
  static std::shared_ptr<ResponseWriter> Create(
      const Request& request, ResponseWriterOptions options,
      std::weak_ptr<ResponseSink> sink, TaskPool& delivery);

  // Where the loop writes. The stream knows the writer weakly.
  const std::shared_ptr<TokenStream>& stream() const { return stream_; }

  // Nothing is sent before. If the client is gone already, ends the call.
  void Start();

  // A write has ended, and failed unless `ok`.
  void OnWriteDone(bool ok);

  // The client is gone. The stream is told unless `overdue`: then its writer
  // knows the deadline, and ends the request itself.
  void OnCancel(bool overdue);

  // The same as in WatchedCall.
  HeldOutput held() const;
  void EndForReader(ReaderFault fault);

 private:
  ResponseWriter(const Request& request, ResponseWriterOptions options,
                 std::weak_ptr<ResponseSink> sink);

  // A task of `delivery`: the stream has something.
  void OnReady();
  // Sends what there is. REQUIRES: `busy_`, set by this thread, which passes it
  // on to the write or gives it back.
  void SendNext(ResponseSink& sink);
  void SendEnd(ResponseSink& sink);
  // Returns false if the stream has got something since it was found empty.
  bool GiveBack(ResponseSink& sink);
  void NoteWrite();

  const ResponseWriterOptions options_;
  const std::weak_ptr<ResponseSink> sink_;
  std::shared_ptr<TokenStream> stream_;  // Set by Create().

  // These belong to whoever has set `busy_`, and then to the write.
  ResponseEncoder encoder_;
  std::optional<absl::StatusOr<Completion>> end_;  // Taken, and not yet sent.
  v1::GenerateResponse response_;

  mutable Mutex mutex_;
  // A thread encodes, or a write is under way, or Start() is still to come.
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // OnReady() came while busy.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // By End() or SendLast().
  // The status of the call if the reader is at fault for its end.
  std::optional<absl::Status> fault_ ABSL_GUARDED_BY(mutex_);
  std::optional<WriteUnderWay> write_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_RESPONSE_WRITER_H_
