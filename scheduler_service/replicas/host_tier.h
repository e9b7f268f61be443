// What the prefix cache of a worker keeps on the worker's host.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_HOST_TIER_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_HOST_TIER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/step.h"
#include "scheduler_service/replicas/cache_query.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

// Bytes that go to the host or come from there in a second: what PCIe 4.0 moves
// in pieces of a page, and less than what later ones do.
inline constexpr double kHostBytesPerSecond = 2e10;
// A token of a prefill where the worker has no table of costs. A GPU runs it in
// about as long if the model is small; where it takes longer, more is worth to
// be kept.
inline constexpr double kLeastTokenSeconds = 1e-5;

struct HostTierOptions {
  int num_slots = 0;
  int num_pages = 0;
  // As the device's cache has them. Bytes are in bytes, unless the worker does
  // not tell them: then copies cost nothing.
  PrefixCacheOptions cache = {};
  // Of a prefill with nothing before it.
  double token_seconds = kLeastTokenSeconds;
};

// A second PrefixCache behind the first. What is evicted from the device comes
// here, if a place is free or has something that is worth less by the same
// measure. A checkpoint has all the pages before it here, which those of the
// same text share; what goes on from one leaves it where it is.
//
// Copies to the host are planned when something is evicted, and are sent with
// the next plan: until then nothing else is written to what they read. They are
// found once the round of that plan has ended. A plan that is refused has
// copied nothing, and what does not rest on it cannot be told apart: all goes
// that nobody holds.
//
// Not thread-safe. COST: as PrefixCache.
class HostTier {
 public:
  // Looks at what leaves `device`, which must outlive it.
  HostTier(PrefixCache& device, const HostTierOptions& options);

  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // As of a cache of both: a text goes on from the host where that has a deeper
  // checkpoint than the device, and copying it takes less time than running
  // what lies between. COST: as PrefixCache, for each of the two.
  PrefixCache::Match Look(const CacheQuery& query) const;
  PrefixCache::Hit Take(const CacheQuery& query);

  // Moves what was planned into the plan that is sent, which has the copies
  // back already.
  void Send(StepPlan& plan);
  // What became of the plan that was sent last.
  void Done();
  void Refused();
  HostStatus status() const;
  // As WorkerMemory::Audit(); `held` are places that requests hold.
  std::string Audit(MemoryReferences held) const;

 private:
  // Takes over what leaves the device, if it is worth a place.
  void Keep(const PrefixCache::Leaving& leaving);
  // The position to go on from rather than from `known`; 0: none.
  int Beyond(const CacheQuery& query, int known) const;
  double BytesOf(const MemoryCopies& copies) const;
  double SecondsToCopy(int pages) const;
  double SecondsToRun(int from, int to) const;

  PrefixCache& device_;
  const HostTierOptions options_;
  // Each before the one above it goes.
  WorkerMemory memory_;
  PrefixCache cache_;
  // Those that are coming. They are held so that their places stay theirs.
  using Coming = std::vector<std::shared_ptr<const SlotLease>>;
  MemoryCopies copies_;
  Coming planned_;
  Coming sent_;
  HostStatus counts_;  // The counts alone.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_HOST_TIER_H_
