// The part of a generation call that all protocols share.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_SERVED_CALL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_SERVED_CALL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/messages/response_writer.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/door/watched_call.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/request.h"

namespace bole {

class CallWatch;

// First the call is admitted: its message is read, which ends with Submit() or
// Refuse(). Then its ResponseWriter answers and ends it. A call that is
// cancelled while its message is being read ends only afterwards; while it
// waits to be read, it ends at once.
//
// Thread-safe.
class ServedCall : public WatchedCall,
                   public ResponseSink,
                   public std::enable_shared_from_this<ServedCall> {
 public:
  // Returns why the call is not admitted, if it is not.
  using AdmitFunction = std::function<std::optional<Refusal>()>;

  // From now on the door's watcher is told what happens to the call, which is
  // known as `id` until its message is read. Call it before everything below,
  // or not at all.
  void Watch(const RequestHead& head, const std::string& id);

  // Calls `admit`, and refuses the call if that returns a refusal: at once if
  // the message is short, or else on a thread of the door. If too many wait
  // there, the call is refused without `admit`.
  // REQUIRES: OnCancel() is not called before this has returned.
  void AdmitBySize(size_t bytes, AdmitFunction admit);

  // Reads the message and submits its requests with the call's deadline and
  // arrival time. Then the call ends by itself, unless a refusal is returned:
  // one of the door's, or that the client has left.
  std::optional<Refusal> Admit(const RequestHead& head,
                               const v1::GenerateRequest& message);

  // Counts the call as refused, and ends it.
  void Refuse(const Refusal& refusal);

  bool cancelled() const;

  HeldOutput held() const override;
  void EndForReader(ReaderFault fault) override;

 protected:
  // The call has arrived at `arrival`. The door must outlive it.
  ServedCall(FrontDoor& door, TimePoint arrival, TimePoint deadline);

  FrontDoor& door() { return door_; }

  // Ends a call to which nothing was sent.
  virtual void EndRefused(const Refusal& refusal) = 0;

  // The same as ResponseWriter::OnWriteDone().
  void EndWrite(bool ok);
  // The client is gone, or the deadline has passed.
  void Cancel();

 private:
  // A message that waits to be read.
  struct Reading {
    TaskPool* pool;
    TaskPool::Ticket ticket;
  };

  void AdmitOrRefuse(const AdmitFunction& admit);
  bool ReadLater(AdmitFunction admit);
  std::optional<Refusal> Submit(ReadMessage message, bool chunks);
  // REQUIRES: watch_ is set.
  void WatchChoices(ReadMessage& message) const;
  std::shared_ptr<ResponseWriter> writer() const;

  FrontDoor& door_;
  const TimePoint arrival_;
  const TimePoint deadline_;
  std::shared_ptr<CallWatch> watch_;  // Or null. Set by Watch() only.

  mutable Mutex mutex_;
  std::optional<Reading> reading_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ResponseWriter> writer_ ABSL_GUARDED_BY(mutex_);  // Or null.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_SERVED_CALL_H_
