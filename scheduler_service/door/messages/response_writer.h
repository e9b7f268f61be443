// Writes one call's output to its client, one message at a time.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_WRITER_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_WRITER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/messages/response_codec.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/door/watched_call.h"
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
  // Ends the call, of which `usage` was sent: what all choices share counts
  // once. REQUIRES: no write is under way.
  virtual void End(const absl::Status& status, const v1::Usage& usage) = 0;
  // Makes the write fail that is under way or about to start, and tells the
  // client why. Returns false if the call has ended already.
  virtual bool Break(const absl::Status& why) = 0;
};

struct ResponseWriterOptions {
  AnswerOptions answer;
  // The bound on waiting output is for all choices together.
  TokenStreamLimits stream = {};
  // If set, called once if the call ends because of its reader.
  std::function<void(ReaderFault)> on_fault = nullptr;
};

// Reads the streams of a call's choices. It takes a delta, encodes and sends
// it, and when the write is done takes the next one, from the next choice that
// has output; meanwhile the streams merge new output. So a slow client delays
// nobody, and costs memory only for its own output, which is bounded. The call
// ends with its last choice, or as soon as one has failed.
//
// The thread that appends to the streams, which is the loop's, only posts a
// task to `delivery`: deltas are encoded by the threads of that pool and by
// those that call OnWriteDone(). They hold no lock meanwhile.
//
// Thread-safe.
class ResponseWriter : public std::enable_shared_from_this<ResponseWriter> {
 public:
  // Gives the requests their streams, which have weak references to the writer.
  // `delivery` must outlive the writer; `sink` may be destroyed before it.
  static std::shared_ptr<ResponseWriter> Create(
      const ChoiceRequests& choices, ResponseWriterOptions options,
      std::weak_ptr<ResponseSink> sink, TaskPool& delivery);

  // Starts to send; nothing is sent before. If the client is gone already, ends
  // the call.
  void Start();

  // A write has ended, and failed unless `ok`.
  void OnWriteDone(bool ok);

  // The client is gone. Unless `overdue`, cancels the streams. If `overdue`,
  // their writer knows the deadline, and ends the requests itself.
  void OnCancel(bool overdue);

  // The same as in WatchedCall.
  HeldOutput held() const;
  void EndForReader(ReaderFault fault);

 private:
  // A choice.
  struct Text {
    const std::shared_ptr<TokenStream> stream;
    // These belong to whoever has set `busy_`, and then to the write.
    ResponseEncoder encoder;
    std::optional<absl::StatusOr<Completion>> end = {};  // Once it was taken.
    bool complete = false;                               // The end was sent.
  };

  ResponseWriter(ResponseWriterOptions options,
                 std::weak_ptr<ResponseSink> sink);

  // Run by `delivery` when a stream has something.
  void OnReady();
  // Sends the next message that is due. REQUIRES: this thread has set `busy_`,
  // which it passes on to the write or gives back.
  void SendNext(ResponseSink& sink);
  // Sends what one choice has. Returns false if it has nothing; else a write is
  // under way, or the call has ended.
  bool SendOf(Text& text, ResponseSink& sink);
  void SendComplete(Text& text, ResponseSink& sink);
  void Fail(absl::Status status, ResponseSink& sink);
  // Clears `busy_`. Returns false without doing so if a stream has received
  // something since it was found empty.
  bool GiveBack(ResponseSink& sink);
  void NoteKept();
  void NoteWrite();

  bool Overflowed() const;
  void DropOutput(bool cancel);
  // REQUIRES: `busy_`, or the call has just been ended by this thread.
  v1::Usage UsageSoFar() const;

  const ResponseWriterOptions options_;
  const std::weak_ptr<ResponseSink> sink_;
  // One for each choice. Create() fills it, and its size never changes again.
  std::vector<Text> texts_;

  // These belong to whoever has set `busy_`, and then to the write.
  size_t next_ = 0;  // The element of texts_ that is checked next.
  size_t num_complete_ = 0;
  v1::GenerateResponse response_;

  mutable Mutex mutex_;
  // A thread encodes, or a write is under way, or Start() is still to come.
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // OnReady() was called.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // By End() or SendLast().
  // The status of the call if the reader is at fault for its end.
  std::optional<absl::Status> fault_ ABSL_GUARDED_BY(mutex_);
  std::optional<WriteUnderWay> write_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_WRITER_H_
