// What the RPC threads know of the worker.
#ifndef BOLE_SCHEDULER_SERVICE_WORKER_PRESENCE_H_
#define BOLE_SCHEDULER_SERVICE_WORKER_PRESENCE_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "scheduler_service/worker_client.h"

namespace bole {

// Follows a worker client's events. Note an event after the loop was told of
// it: a request that is submitted because the worker is here then finds it
// there.
//
// Thread-safe.
class WorkerPresence {
 public:
  struct Snapshot {
    // Of the worker that is connected, or was last; null before the first.
    std::shared_ptr<const WorkerDescription> description;
    bool connected = false;
    bool draining = false;
    std::string last_error;  // Why it is not connected.

    // Whether it may be given new requests.
    bool ready() const { return connected && !draining; }
  };

  void Note(const WorkerEvent& event);
  Snapshot Get() const;

 private:
  mutable Mutex mutex_;
  Snapshot snapshot_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WORKER_PRESENCE_H_
