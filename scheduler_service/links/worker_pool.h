// The clients of all workers that currently exist.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_WORKER_POOL_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_WORKER_POOL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "scheduler_service/links/claims.h"
#include "scheduler_service/links/discovery.h"
#include "scheduler_service/links/grpc_worker_client.h"
#include "scheduler_service/links/share.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

// How a pool is shared with other schedulers.
struct SharedPoolOptions {
  ClaimsOptions claims = {};
  PlaceOf place_of;
  // Returns the name of the served model that a worker with this description
  // would join.
  std::function<absl::StatusOr<std::string>(const WorkerDescription&)> model_of;
  // Called with a message for every worker that is claimed or given back, and
  // why. May be null.
  std::function<void(const std::string&)> note = nullptr;
  // Called with the current shares at every tick. May be null. Neither of these
  // functions may call the pool.
  std::function<void(const PoolShares&)> on_shares = nullptr;
  std::chrono::milliseconds tick{100};
};

struct WorkerPoolOptions {
  // "HOST:PORT" each. A host may stand for many addresses, which may change: it
  // is looked up repeatedly.
  std::vector<std::string> workers;
  GrpcWorkerClientOptions client = {};  // Without the address.
  DiscoveryOptions discovery = {};      // Without the name.
  std::optional<SharedPoolOptions> shared = std::nullopt;
};

// Has a client for every address that any of the names stands for, and reports
// it with WorkerAdded. WorkerRemoved reports an address that no name stands for
// any more; its client lives until the scheduler has let it go, because a
// worker that leaves still has requests to finish.
//
// A client keeps its worker connected, unless the pool is shared: then Claims
// decides which of them to connect. A worker that is to be given back is
// reported as draining; one that could not be reached, or is left to other
// schedulers, is reported as WorkerLost with epoch 0.
//
// Thread-safe. Many threads call the sink.
class WorkerPool {
 public:
  using Sink = std::function<void(WorkerEvent)>;
  using OnError = std::function<void(const absl::Status&)>;

  // INVALID_ARGUMENT if a name is not HOST:PORT. `on_error` is called for
  // lookups that fail.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Start(
      const WorkerPoolOptions& options, Sink sink, const OnError& on_error);
  ~WorkerPool();

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // As Scheduler::LetGo: lets go of the client of `worker`, unless it was added
  // again. Returns at once. REQUIRES: it was removed, and has not been let go
  // yet.
  bool LetGo(WorkerId worker);

  // As Claims::Leave(); does nothing if the pool is not shared.
  void Leave();
  // The shares at the last tick; none if the pool is not shared.
  PoolShares shares() const;

 private:
  struct Member {
    WorkerId id;
    std::unique_ptr<GrpcWorkerClient> client;
    bool removed = false;
    // The other members are for shared pools.
    uint64_t epoch = 0;         // The last connection's epoch.
    bool draining = false;      // The worker asked to leave.
    std::string why = {};       // Why it was connected.
    bool told_answers = false;  // Reported: it answers, but is unclaimed.
  };
  using Clients = std::vector<std::unique_ptr<GrpcWorkerClient>>;

  WorkerPool(const WorkerPoolOptions& options, Sink sink);

  void OnFound(const std::string& name, const std::vector<std::string>& found);
  void Add(const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<GrpcWorkerClient> NewClient(WorkerId id,
                                              const std::string& address);
  void Tell(WorkerId worker, WorkerNews news);

  // These are used only by shared pools.
  void Run();
  void Tick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Obey(const Claims::Order& order) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Follow(WorkerId worker, const WorkerNews& news)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnLook(WorkerId worker,
              const absl::StatusOr<WorkerDescription>& description);
  void TellLost(WorkerId worker, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const std::string& what) const;
  std::map<std::string, Member>::value_type* Find(WorkerId worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const WorkerPoolOptions options_;
  const Sink sink_;

  mutable Mutex mutex_;
  // The addresses that each name stands for.
  std::map<std::string, std::vector<std::string>> found_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Member> members_
      ABSL_GUARDED_BY(mutex_);  // By address.
  int32_t num_added_ ABSL_GUARDED_BY(mutex_) = 0;
  // Clients that are not used any more. Their destructors wait for their
  // threads, so the next lookup or tick destroys them.
  Clients let_go_ ABSL_GUARDED_BY(mutex_);
  std::optional<Claims> claims_ ABSL_GUARDED_BY(mutex_);  // Set if shared.
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::unique_ptr<Discovery>> discoveries_;  // Last: uses the rest.
  std::thread ticker_;                                   // Likewise.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_WORKER_POOL_H_
