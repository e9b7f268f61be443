#include "scheduler_service/links/worker_pool.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "common/status_macros.h"

namespace bole {

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Start(
    const WorkerPoolOptions& options, Sink sink, const OnError& on_error) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool(options, std::move(sink)));
  for (const std::string& name : options.workers) {
    DiscoveryOptions discovery = options.discovery;
    discovery.name = name;
    BOLE_ASSIGN_OR_RETURN(
        auto started,
        Discovery::Start(
            std::move(discovery),
            [pool = pool.get(), name](const std::vector<std::string>& found) {
              pool->OnFound(name, found);
            },
            on_error));
    pool->discoveries_.push_back(std::move(started));
  }
  return pool;
}

WorkerPool::WorkerPool(const WorkerPoolOptions& options, Sink sink)
    : options_(options), sink_(std::move(sink)) {}

WorkerPool::~WorkerPool() {
  discoveries_.clear();
  // Their threads may wait for the mutex.
  std::map<std::string, Member> members;
  Clients let_go;
  MutexLock lock(mutex_);
  members.swap(members_);
  let_go.swap(let_go_);
}

void WorkerPool::OnFound(const std::string& name,
                         const std::vector<std::string>& found) {
  Clients ended;  // After the lock, which their threads may wait for.
  MutexLock lock(mutex_);
  ended.swap(let_go_);
  found_[name] = found;
  std::set<std::string> wanted;
  for (const auto& [other, addresses] : found_) {
    wanted.insert(addresses.begin(), addresses.end());
  }
  for (const std::string& address : wanted) Add(address);
  for (auto& [address, member] : members_) {
    if (member.removed || wanted.contains(address)) continue;
    member.removed = true;
    sink_({.worker = member.id, .news = WorkerRemoved()});
  }
}

void WorkerPool::Add(const std::string& address) {
  auto at = members_.find(address);
  if (at != members_.end() && !at->second.removed) return;
  if (at == members_.end()) {
    const WorkerId id(num_added_++);
    GrpcWorkerClientOptions client = options_.client;
    client.address = address;
    at = members_
             .emplace(address,
                      Member{.id = id,
                             .client = std::make_unique<GrpcWorkerClient>(
                                 client,
                                 [this, id](WorkerNews news) {
                                   Tell(id, std::move(news));
                                 })})
             .first;
  }
  at->second.removed = false;
  sink_({.worker = at->second.id,
         .news =
             WorkerAdded{.name = address, .client = at->second.client.get()}});
}

void WorkerPool::Tell(WorkerId worker, WorkerNews news) {
  // Until Add() has told of the worker.
  if (!std::holds_alternative<WorkerOutcome>(news)) MutexLock lock(mutex_);
  sink_({.worker = worker, .news = std::move(news)});
}

bool WorkerPool::LetGo(WorkerId worker) {
  MutexLock lock(mutex_);
  const auto at = std::find_if(
      members_.begin(), members_.end(),
      [worker](const auto& member) { return member.second.id == worker; });
  if (!at->second.removed) return false;
  let_go_.push_back(std::move(at->second.client));
  members_.erase(at);
  return true;
}

}  // namespace bole
