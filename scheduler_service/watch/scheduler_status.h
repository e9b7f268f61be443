// What the loop tells about itself.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_SCHEDULER_STATUS_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_SCHEDULER_STATUS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/speculation.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

struct WorkerStatus {
  std::string name;  // Its address.
  // Describes the worker that is connected, or was last; null before the first.
  std::shared_ptr<const WorkerDescription> description = nullptr;
  std::string model = {};  // The one that it serves, or served last.
  bool connected = false;
  bool draining = false;
  uint64_t epoch = 0;           // The last one.
  std::string last_error = {};  // Why it is not connected.
  int running = 0;
  // What its policy lacks to do as asked: "no_table". Empty: nothing.
  std::string policy_fallback = {};
  int in_prefill = 0;  // Those that run and have not decoded here yet.
  // Those that its prefix cache holds are free as well, and cached.
  PoolStatus slots = {};
  PoolStatus pages = {};
  // Of its prefix cache: those there are, and those that gave way.
  int num_checkpoints = 0;
  int64_t num_evicted = 0;
  HostStatus host = {};
  // Empty if every slot and page is free or held by those that run there, and
  // the worker is busy while any run; otherwise what is wrong.
  std::string audit = {};
};

struct ModelStatus {
  std::string name;
  int running = 0;  // Requests.
  int waiting = 0;
  size_t waiting_tokens = 0;  // Of the prompts of those that wait.
  size_t waiting_bytes = 0;   // Of their messages.
};

// A snapshot between two rounds.
struct SchedulerStatus {
  std::vector<WorkerStatus> workers;  // By their number.
  std::vector<ModelStatus> models;    // By theirs.
  // Sums over all workers.
  int running = 0;
  int waiting = 0;
  PoolStatus slots;
  PoolStatus pages;
  // In use: what was asked for, as far as the first worker can. With another
  // policy than kFixed no round has more.
  Speculation speculation;
  PolicyKind policy = PolicyKind::kFixed;
  // Empty if those of the workers are, every request waits or runs once, and a
  // worker is busy while requests could run; otherwise what is wrong.
  std::string audit;

  int num_connected() const {
    int connected = 0;
    for (const WorkerStatus& worker : workers) connected += worker.connected;
    return connected;
  }
  bool connected() const { return num_connected() > 0; }
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_SCHEDULER_STATUS_H_
