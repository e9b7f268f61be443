// The requests that wait for a place on a worker.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_FAIR_QUEUE_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_FAIR_QUEUE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/jobs/request.h"

namespace bole {

// Jobs in the order in which they get a place.
//
// Between tenants the queue is fair by tokens: the next job is one of the
// tenant for which the fewest tokens were computed. A tenant that had nothing
// waiting is not compensated for that time: it begins at the level of the least
// served one that waits. Within a tenant a higher priority goes first, then the
// earlier arrival. So without tenants and priorities the order is that of
// arrival.
//
// Not thread-safe. Jobs are not owned.
// COST: O(log of the waiting jobs) for each call, unless stated otherwise.
class FairQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // Sums over the waiting jobs: tokens of prompts, and bytes of messages.
  size_t tokens() const { return tokens_; }
  size_t bytes() const { return bytes_; }

  // REQUIRES: `job` does not wait.
  void Push(Job& job);
  // The next job; null if none waits.
  Job* Front() const;
  // The next job of each tenant, in order. COST: O(tenants that wait).
  std::vector<Job*> Fronts() const;
  // REQUIRES: `job` waits.
  void Remove(Job& job);

  // `tokens` were or will be computed for `job`, which may wait or run.
  void Charge(const Job& job, int64_t tokens);
  // How many more tokens were computed for the tenant of `a` than for that of
  // `b`. A tenant counts as served at least up to the current level.
  int64_t Lead(const Job& a, const Job& b) const;

 private:
  struct Order {
    bool operator()(const Job* a, const Job* b) const;
  };
  // The place of a tenant among the others that have jobs waiting.
  struct Rank {
    int64_t served;
    TimePoint arrival;  // When its next job arrived.
    JobId job;          // Its next job.

    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  struct Tenant {
    int64_t served = 0;
    std::set<Job*, Order> waiting;
    std::optional<Rank> rank;
  };
  using Idle = std::pair<int64_t, std::string>;  // Served, and the name.

  // Open() takes the tenant out of the ordered sets, so that it can be changed;
  // Close() puts it back.
  Tenant& Open(const std::string& name);
  void Close(const std::string& name, Tenant& tenant);
  // The level at which new tenants begin.
  int64_t Level() const;
  int64_t ServedOf(const std::string& name) const;

  absl::flat_hash_map<std::string, Tenant> tenants_;
  std::set<std::pair<Rank, std::string>> ranked_;  // Tenants with waiting jobs.
  // The other tenants that were served more than Level(). Only these have to be
  // remembered, and if there are too many, the most served of them.
  std::set<Idle> idle_;
  int64_t last_level_ = 0;  // When a tenant last waited.
  size_t size_ = 0;
  size_t tokens_ = 0;
  size_t bytes_ = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_FAIR_QUEUE_H_
