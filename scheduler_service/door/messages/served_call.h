// A call that asks for texts, as far as protocols share it.
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
  // Says why the call is not admitted, if it is not.
  using AdmitFunction = std::function<std::optional<Refusal>()>;

  // From now on the door's watcher is told what becomes of the call, which is
  // known as `id` until its message is read. Before everything below, if at
  // all.
  void Watch(const RequestHead& head, const std::string& id);

  // Calls `admit`, and refuses the call as it says: at once if the message is
  // short, or else on a thread of the door, unless too many wait there.
  // REQUIRES: OnCancel() is not called before this has returned.
  void AdmitBySize(size_t bytes, AdmitFunction admit);

  // Reads the message and submits what it asks for, with the call's deadline
  // and the time at which it came. Then the call ends by itself, unless a
  // refusal is returned, which is the door's or says that the client has left.
  std::optional<Refusal> Admit(const RequestHead& head,
                               const v1::GenerateRequest& message);

  // Counts the call as refused, and ends it.
  void Refuse(const Refusal& refusal);

  bool cancelled() const;

  HeldOutput held() const override;
  void EndForReader(ReaderFault fault) override;

 protected:
  // The call comes now. The door must outlive it.
  ServedCall(FrontDoor& door, TimePoint arrival, TimePoint deadline);

  FrontDoor& door() { return door_; }

  // Ends the call, to which nothing was sent.
  virtual void EndRefused(const Refusal& refusal) = 0;

  // As ResponseWriter has it.
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
  std::shared_ptr<CallWatch> watch_;  // Or null. Does not change once it waits.

  mutable Mutex mutex_;
  std::optional<Reading> reading_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ResponseWriter> writer_ ABSL_GUARDED_BY(mutex_);  // Or null.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_SERVED_CALL_H_
