// What the prefix cache of a worker keeps on the worker's host.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_HOST_TIER_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_HOST_TIER_H_

#include <memory>
#include <string>
#include <vector>

#include "common/step.h"
#include "scheduler_service/replicas/cache_query.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

// What copies between device and host are taken to reach: PCIe 4.0 does, in
// pieces of a page, and later ones do more.
inline constexpr double kHostBytesPerSecond = 2e10;
// The prefill of a token where the worker has no table of costs: what a small
// model takes on a GPU. With a larger one more would be worth keeping.
inline constexpr double kLeastTokenSeconds = 1e-5;

struct HostTierOptions {
  int num_slots = 0;
  int num_pages = 0;
  // The device's. A slot of 1 byte says that the worker does not tell its
  // bytes: then copies cost nothing.
  PrefixCacheOptions cache = {};
  // The prefill of a token at the beginning of a text.
  double token_seconds = kLeastTokenSeconds;
};

// A second PrefixCache, over places of the worker's host. It takes what the
// device evicts if a place is free or holds something that is worth less by the
// same measure. Checkpoints of the same text share their pages here, as on the
// device. A checkpoint that a request goes on from stays.
//
// A copy to the host is planned when its checkpoint is evicted, and comes
// before all else of the next plan, so that it reads what was evicted. The
// checkpoint is found once the round of that plan has ended. A plan that is
// refused has copied nothing, and nobody knows what rests on its pages: then
// everything goes that no request holds.
//
// Not thread-safe. COST: as PrefixCache.
class HostTier {
 public:
  // Takes over what `device` evicts, which must outlive it.
  HostTier(PrefixCache& device, const HostTierOptions& options);

  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // PrefixCache::Look() and Take() in both caches: a text goes on from the host
  // where that has a deeper checkpoint than the device, and copying it takes
  // less time than the prefill of what lies between.
  PrefixCache::Match Look(const CacheQuery& query) const;
  PrefixCache::Hit Take(const CacheQuery& query);

  // Moves the planned copies into a plan, which has those from the host
  // already.
  void Send(StepPlan& plan);
  // The round of that plan has ended, or the plan was refused.
  void Done();
  void Refused();
  HostStatus status() const;
  // As WorkerMemory::Audit(). Requests hold the places `held`.
  std::string Audit(MemoryReferences held) const;

 private:
  // Plans the copy of what the device evicts, if it is worth a place.
  void Keep(const PrefixCache::Leaving& leaving);
  // Where to go on from the host rather than from `known` on the device; 0: not
  // from the host.
  int PositionOnHost(const CacheQuery& query, int known) const;
  double BytesOf(const MemoryCopies& copies) const;
  double SecondsToCopy(int pages) const;
  double SecondsToRun(int from, int to) const;

  PrefixCache& device_;
  const HostTierOptions options_;
  WorkerMemory memory_;  // Outlives the cache.
  PrefixCache cache_;
  // Checkpoints whose copies have not ended hold their places.
  using Checkpoints = std::vector<std::shared_ptr<const SlotLease>>;
  MemoryCopies copies_;  // For the next plan.
  Checkpoints planned_;  // Those of `copies_`.
  Checkpoints sent_;     // Those of the last plan.
  HostStatus counts_;    // Hits and bytes; status() adds the others.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_HOST_TIER_H_
