// What the scheduler loop reports about itself.
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
  // The description of the current or last connection; null before the first.
  std::shared_ptr<const WorkerDescription> description = nullptr;
  std::string model = {};  // The one that it serves, or served last.
  bool connected = false;
  bool draining = false;
  uint64_t epoch = 0;           // The last one.
  std::string last_error = {};  // Why it is not connected.
  int running = 0;
  // RoundPolicy::fallback(): "no_table".
  std::string policy_fallback = {};
  int in_prefill = 0;  // Running, but not decoded here yet.
  // Those that its prefix cache holds count both as `free` and as `cached`.
  PoolStatus slots = {};
  PoolStatus pages = {};
  // The checkpoints of its prefix cache, and how many were evicted.
  int num_checkpoints = 0;
  int64_t num_evicted = 0;
  HostStatus host = {};
  // Empty if every slot and page is free or held by a known holder, and the
  // worker is busy while requests run there; otherwise what is wrong.
  std::string audit = {};
};

struct ModelStatus {
  std::string name;
  int running = 0;  // Requests.
  int waiting = 0;
  size_t waiting_tokens = 0;  // Prompt tokens of the waiting requests.
  size_t waiting_bytes = 0;   // Bytes of their messages.
};

// A snapshot of the scheduler between two turns.
struct SchedulerStatus {
  std::vector<WorkerStatus> workers;  // By worker number.
  std::vector<ModelStatus> models;    // By ModelId.
  // Sums over all workers.
  int running = 0;
  int waiting = 0;
  PoolStatus slots;
  PoolStatus pages;
  // The requested speculation, reduced to what the first worker supports. For
  // policies other than kFixed it is an upper bound.
  Speculation speculation;
  PolicyKind policy = PolicyKind::kFixed;
  // Empty if the audits of the workers are, every request waits or runs exactly
  // once, and a worker is busy while requests could run; otherwise what is
  // wrong.
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
