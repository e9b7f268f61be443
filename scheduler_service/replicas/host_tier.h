// The part of a worker's prefix cache that is in the memory of the worker's
// host.
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

// The assumed speed of copies between device and host. PCIe 4.0 reaches it with
// copies of a page; later versions are faster.
inline constexpr double kHostBytesPerSecond = 2e10;
// The assumed prefill time of a token if the worker has no table of costs: that
// of a small model on a GPU. With a larger model more would be worth keeping.
inline constexpr double kLeastTokenSeconds = 1e-5;

struct HostTierOptions {
  int num_slots = 0;
  int num_pages = 0;
  // The device's options. A slot of 1 byte means that the worker does not tell
  // its sizes: then copies cost nothing.
  PrefixCacheOptions cache = {};
  // The prefill time of a token at the beginning of a text.
  double token_seconds = kLeastTokenSeconds;
};

// A second PrefixCache, whose slots and pages are on the worker's host. It
// takes what the device evicts if a place is free or holds something that is
// worth less by the same measure. Checkpoints of the same text share their
// pages here, as on the device. A checkpoint is not evicted while a request
// starts from it.
//
// A copy to the host is planned when its checkpoint is evicted, and is the
// first work of the next plan, so that it reads the evicted data. The
// checkpoint can be found once the round of that plan has ended. A plan that is
// refused has copied nothing, and it is not known which checkpoints depend on
// its pages: then everything that no request holds is dropped.
//
// Not thread-safe. COST: as PrefixCache.
class HostTier {
 public:
  // Takes over what `device` evicts. `device` must outlive it.
  HostTier(PrefixCache& device, const HostTierOptions& options);

  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // PrefixCache::Look() and Take() in both caches: a text starts from the host
  // if the host has a deeper checkpoint than the device, and copying it takes
  // less time than the prefill of the tokens in between.
  PrefixCache::Match Look(const CacheQuery& query) const;
  PrefixCache::Hit Take(const CacheQuery& query);

  // Moves the planned copies into a plan, which already has the copies from the
  // host.
  void Send(StepPlan& plan);
  // The round of that plan has ended, or the plan was refused.
  void Done();
  void Refused();
  HostStatus status() const;
  // As WorkerMemory::Audit(), where requests hold `held`.
  std::string Audit(MemoryReferences held) const;

 private:
  // Plans a copy of what the device evicts, if it is worth a place.
  void Keep(const PrefixCache::Leaving& leaving);
  // The position to start from on the host rather than from `known` on the
  // device; 0: not from the host.
  int PositionOnHost(const CacheQuery& query, int known) const;
  double BytesOf(const MemoryCopies& copies) const;
  double SecondsToCopy(int pages) const;
  double SecondsToRun(int from, int to) const;

  PrefixCache& device_;
  const HostTierOptions options_;
  WorkerMemory memory_;  // Outlives the cache.
  PrefixCache cache_;
  // Checkpoints keep their places until their copies have ended.
  using Checkpoints = std::vector<std::shared_ptr<const SlotLease>>;
  MemoryCopies copies_;  // For the next plan.
  Checkpoints planned_;  // Kept for `copies_`.
  Checkpoints sent_;     // Kept for the last plan's copies.
  HostStatus counts_;    // Hits and bytes; status() adds the others.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_HOST_TIER_H_
