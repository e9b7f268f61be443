// The RPC threads' view of each model's workers.
#ifndef BOLE_SCHEDULER_SERVICE_MODELS_WORKER_PRESENCE_H_
#define BOLE_SCHEDULER_SERVICE_MODELS_WORKER_PRESENCE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_catalog.h"

namespace bole {

// Follows the events of all workers. Note an event only after the loop was told
// of it: then a request that is submitted because a worker is present here
// finds that worker in the loop.
//
// Thread-safe.
class WorkerPresence {
 public:
  // `catalog` must outlive this.
  explicit WorkerPresence(const ModelCatalog& catalog);

  struct Snapshot {
    // Describes the worker that has been connected the longest, if one is
    // connected that does not drain, or else the last one; null before the
    // first.
    std::shared_ptr<const WorkerDescription> description;
    bool connected = false;  // At least one worker is.
    bool draining = false;   // All connected workers drain.
    std::string last_error;  // Why some worker is not connected.

    // Whether a worker may be given new requests.
    bool ready() const { return connected && !draining; }
  };

  void Note(const WorkerEvent& event);
  // The workers' addresses could not be looked up.
  void Note(const absl::Status& why);

  // The workers of that model.
  Snapshot Get(ModelId model) const;
  // Whether any model's workers may be given new requests.
  bool IsAnyReady() const;

 private:
  struct Worker {
    WorkerId id;
    std::shared_ptr<const WorkerDescription> description;
    bool draining = false;
  };
  struct OfModel {
    std::vector<Worker> connected = {};  // The longest connected first.
    std::shared_ptr<const WorkerDescription> last = nullptr;
  };

  void Connect(WorkerId id, const WorkerDescription& description)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(WorkerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ModelCatalog& catalog_;
  mutable Mutex mutex_;
  std::vector<OfModel> models_ ABSL_GUARDED_BY(mutex_);  // By ModelId.
  std::string last_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_MODELS_WORKER_PRESENCE_H_
