// Preemption: takes places from tenants that hold many for one that holds few.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PREEMPTION_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PREEMPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/replicas/placements.h"

namespace bole {

// The shares of a model's workers that the running jobs of each tenant hold:
// sums of Placements::ShareOf().
//
// Not thread-safe. COST: O(1) each.
class HeldShares {
 public:
  void Add(const std::string& tenant, int64_t share);
  // REQUIRES: it was added.
  void Remove(const std::string& tenant, int64_t share);
  int64_t Of(const std::string& tenant) const;

 private:
  absl::flat_hash_map<std::string, int64_t> held_;  // Above 0.
};

// The jobs on a worker that have to leave for `job` to get a place there; none
// if it should wait instead. They belong to the tenant that holds most among
// those with jobs there: the lowest priority comes first, then the latest
// arrival.
//
// A place is taken only if that tenant then still holds 1.5 times as much as
// the tenant of `job`, so that tenants with about equal shares do not keep
// taking places from each other. It is never taken from a job that has emitted
// nothing since it was placed, so that every placement is of use, nor from a
// suspect.
//
// REQUIRES: `job` fits there, and there is no room for it.
// COST: O(placements log placements).
std::vector<Job*> FindVictims(const Job& job, const HeldShares& held,
                              const Placements& placements);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PREEMPTION_H_
