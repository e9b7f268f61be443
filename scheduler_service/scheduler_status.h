// What the loop tells about itself.
#ifndef BOLE_SCHEDULER_SERVICE_SCHEDULER_STATUS_H_
#define BOLE_SCHEDULER_SERVICE_SCHEDULER_STATUS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "scheduler_service/speculation.h"
#include "scheduler_service/worker_client.h"

namespace bole {

struct PoolStatus {
  int total = 0;
  int free = 0;
};

// A snapshot between two rounds.
struct SchedulerStatus {
  // The worker that is connected, or was last; null before the first.
  std::shared_ptr<const WorkerDescription> worker;
  bool connected = false;
  bool worker_draining = false;
  uint64_t epoch = 0;
  std::string last_error;  // Why it is not connected.
  int running = 0;
  int waiting = 0;
  PoolStatus slots;
  PoolStatus pages;
  // In use: what was asked for, as far as the worker can.
  Speculation speculation;
  // Empty if every slot and page is free or held by exactly one request, and
  // the worker is busy while requests could run; otherwise what is wrong.
  std::string audit;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_STATUS_H_
