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
  if (options.shared) {
    pool->ticker_ = std::thread([pool = pool.get()] { pool->Run(); });
  }
  return pool;
}

WorkerPool::WorkerPool(const WorkerPoolOptions& options, Sink sink)
    : options_(options), sink_(std::move(sink)) {
  if (!options_.shared) return;
  claims_.emplace(options_.client.scheduler.instance, options_.shared->claims);
}

WorkerPool::~WorkerPool() {
  discoveries_.clear();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stopped_.NotifyAll();
  }
  if (ticker_.joinable()) ticker_.join();
  // The clients are destroyed after the mutex is released: their threads may
  // wait for it.
  std::map<std::string, Member> members;
  Clients let_go;
  MutexLock lock(mutex_);
  members.swap(members_);
  let_go.swap(let_go_);
}

void WorkerPool::OnFound(const std::string& name,
                         const std::vector<std::string>& found) {
  Clients ended;  // Destroyed after the lock is released: their threads may
                  // wait for it.
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
    if (claims_) claims_->Remove(member.id);
    sink_({.worker = member.id, .news = WorkerRemoved()});
  }
}

void WorkerPool::Add(const std::string& address) {
  auto at = members_.find(address);
  if (at != members_.end() && !at->second.removed) return;
  if (at == members_.end()) {
    const WorkerId id(num_added_++);
    at = members_.emplace(address, Member{.id = id, .client = nullptr}).first;
    at->second.client = NewClient(id, address);
  }
  at->second.removed = false;
  if (claims_) claims_->Add(at->second.id, address);
  sink_({.worker = at->second.id,
         .news =
             WorkerAdded{.name = address, .client = at->second.client.get()}});
}

std::unique_ptr<GrpcWorkerClient> WorkerPool::NewClient(
    WorkerId id, const std::string& address) {
  GrpcWorkerClientOptions client = options_.client;
  client.address = address;
  if (options_.shared) {
    client.on_look =
        [this, id](const absl::StatusOr<WorkerDescription>& description) {
          OnLook(id, description);
        };
  }
  return std::make_unique<GrpcWorkerClient>(
      client, [this, id](WorkerNews news) { Tell(id, std::move(news)); });
}

void WorkerPool::Tell(WorkerId worker, WorkerNews news) {
  if (std::holds_alternative<WorkerOutcome>(news)) {
    sink_({.worker = worker, .news = std::move(news)});
    return;
  }
  // The lock makes this wait until Add() has reported the worker, and keeps it
  // in order with the reports of Obey().
  MutexLock lock(mutex_);
  if (claims_) Follow(worker, news);
  sink_({.worker = worker, .news = std::move(news)});
}

bool WorkerPool::LetGo(WorkerId worker) {
  MutexLock lock(mutex_);
  auto& [address, member] = *Find(worker);
  if (!member.removed) return false;
  let_go_.push_back(std::move(member.client));
  if (claims_) claims_->Forget(worker);
  members_.erase(members_.find(address));
  return true;
}

std::map<std::string, WorkerPool::Member>::value_type* WorkerPool::Find(
    WorkerId worker) {
  const auto at = std::find_if(
      members_.begin(), members_.end(),
      [worker](const auto& member) { return member.second.id == worker; });
  return at == members_.end() ? nullptr : &*at;
}

}  // namespace bole
