// The clients of all workers, as many as there are at the moment.
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
  // The name of the served model that such a worker would join.
  std::function<absl::StatusOr<std::string>(const WorkerDescription&)> model_of;
  // Told what is claimed and given back, and why. May be null.
  std::function<void(const std::string&)> note = nullptr;
  // Told what the shares are, at every tick. May be null. Neither of these
  // functions may call the pool.
  std::function<void(const PoolShares&)> on_shares = nullptr;
  std::chrono::milliseconds tick{100};
};

struct WorkerPoolOptions {
  // "HOST:PORT" each. A host may stand for many addresses, now or later: it is
  // looked up again and again.
  std::vector<std::string> workers;
  GrpcWorkerClientOptions client = {};  // But for the address.
  DiscoveryOptions discovery = {};      // But for the name.
  std::optional<SharedPoolOptions> shared = std::nullopt;
};

// Has a client for every address that any of the names stands for, and tells
// of it by WorkerAdded. An address that no name stands for any more is told by
// WorkerRemoved; its client goes on until the scheduler has let it go, because
// a worker that leaves still has requests to end.
//
// A client keeps its worker connected, unless the pool is shared: then Claims
// decides which of them to connect. A worker that is to be given back is told
// as one that drains; that it could not be reached, or is left to others, is
// told as WorkerLost with epoch 0.
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

  // As Claims::Leave(); nothing happens if the pool is not shared.
  void Leave();
  // As they were at the last tick; none if the pool is not shared.
  PoolShares shares() const;

 private:
  struct Member {
    WorkerId id;
    std::unique_ptr<GrpcWorkerClient> client;
    bool removed = false;
    // The rest is for shared pools.
    uint64_t epoch = 0;         // Of the last connection.
    bool draining = false;      // By its own wish.
    std::string why = {};       // It was asked.
    bool told_answers = false;  // That it can be reached, but is not asked.
  };
  using Clients = std::vector<std::unique_ptr<GrpcWorkerClient>>;

  WorkerPool(const WorkerPoolOptions& options, Sink sink);

  void OnFound(const std::string& name, const std::vector<std::string>& found);
  void Add(const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<GrpcWorkerClient> NewClient(WorkerId id,
                                              const std::string& address);
  void Tell(WorkerId worker, WorkerNews news);

  // These are used by shared pools alone.
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
  // What each name stands for.
  std::map<std::string, std::vector<std::string>> found_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Member> members_
      ABSL_GUARDED_BY(mutex_);  // By address.
  int32_t num_added_ ABSL_GUARDED_BY(mutex_) = 0;
  // Clients that are not used any more. Their ends wait for their threads, so
  // whoever looks names up next does it.
  Clients let_go_ ABSL_GUARDED_BY(mutex_);
  std::optional<Claims> claims_ ABSL_GUARDED_BY(mutex_);  // Of a shared pool.
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::unique_ptr<Discovery>> discoveries_;  // Use the rest,
  std::thread ticker_;                                   // so do these: last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_WORKER_POOL_H_
