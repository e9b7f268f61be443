// The clients of all workers, as many as there are at the moment.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_WORKER_POOL_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_WORKER_POOL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "scheduler_service/links/discovery.h"
#include "scheduler_service/links/grpc_worker_client.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

struct WorkerPoolOptions {
  // "HOST:PORT" each. A host may stand for many addresses, now or later: it is
  // looked up again and again.
  std::vector<std::string> workers;
  GrpcWorkerClientOptions client = {};  // But for the address.
  DiscoveryOptions discovery = {};      // But for the name.
};

// Has a client for every address that any of the names stands for, and tells
// of it by WorkerAdded. An address that no name stands for any more is told by
// WorkerRemoved; its client goes on until the scheduler has let it go, because
// a worker that leaves still has requests to end.
//
// Thread-safe. The sink is called by many threads.
class WorkerPool {
 public:
  using Sink = std::function<void(WorkerEvent)>;
  using OnError = std::function<void(const absl::Status&)>;

  // INVALID_ARGUMENT if a name is not HOST:PORT. `on_error` is told of lookups
  // that failed.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Start(
      const WorkerPoolOptions& options, Sink sink, const OnError& on_error);
  ~WorkerPool();

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // As Scheduler::LetGo: lets go of the client of `worker`, unless it was added
  // again. Returns at once. REQUIRES: it was removed, and is not let go yet.
  bool LetGo(WorkerId worker);

 private:
  struct Member {
    WorkerId id;
    std::unique_ptr<GrpcWorkerClient> client;
    bool removed = false;
  };
  using Clients = std::vector<std::unique_ptr<GrpcWorkerClient>>;

  WorkerPool(const WorkerPoolOptions& options, Sink sink);

  void OnFound(const std::string& name, const std::vector<std::string>& found);
  void Add(const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(WorkerId worker, WorkerNews news);

  const WorkerPoolOptions options_;
  const Sink sink_;

  Mutex mutex_;
  // What each name stands for.
  std::map<std::string, std::vector<std::string>> found_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Member> members_
      ABSL_GUARDED_BY(mutex_);  // By address.
  int32_t num_added_ ABSL_GUARDED_BY(mutex_) = 0;
  // Clients that are not used any more. Their ends wait for their threads, so
  // whoever looks names up next does it.
  Clients let_go_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::unique_ptr<Discovery>> discoveries_;  // Use the rest: last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_WORKER_POOL_H_
