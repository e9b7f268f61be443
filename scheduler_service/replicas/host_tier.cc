#include "scheduler_service/replicas/host_tier.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace bole {
namespace {

PrefixCacheOptions CacheOptions(PrefixCacheOptions options) {
  // Pages are not replaced, because a copy to them may be on its way.
  options.keeps_pages = true;
  return options;
}

}  // namespace

HostTier::HostTier(PrefixCache& device, const HostTierOptions& options)
    : device_(device),
      options_(options),
      memory_(options.num_slots, options.num_pages),
      cache_(memory_, CacheOptions(options.cache)) {
  device.set_on_evict(
      [this](const PrefixCache::Leaving& leaving) { Keep(leaving); });
}

double HostTier::SecondsToCopy(int pages) const {
  if (options_.cache.slot_bytes <= 1) return 0;
  return (options_.cache.slot_bytes + pages * options_.cache.page_bytes) /
         kHostBytesPerSecond;
}

double HostTier::SecondsToRun(int from, int to) const {
  const double tokens = to - from;
  return options_.token_seconds * tokens *
         (1 + options_.cache.context_cost * (from + tokens / 2));
}

void HostTier::Keep(const PrefixCache::Leaving& leaving) {
  CheckpointFacts facts = leaving.hit.from;
  const auto pages_here = [&](int most, bool drafted) {
    return cache_.Known(leaving.key, leaving.tokens, most, drafted);
  };
  PageLease pages = pages_here(facts.position / options_.cache.page_size,
                               /*drafted=*/false);
  const int known = pages.size();
  // Pages that are already on the host are not copied again, even if the
  // drafter has seen less of them than of the evicted ones.
  const int needed = std::min(known, leaving.hit.first_written);
  if (pages_here(needed, /*drafted=*/true).size() < needed) {
    facts.has_drafter = false;
  }
  const std::optional<int> above =
      cache_.AboveOf(leaving.key, leaving.tokens, facts);
  if (!above) return;
  const std::vector<PageId>& from = leaving.hit.pages->ids();
  const int count = static_cast<int>(from.size());
  std::optional<SlotLease> slot =
      cache_.SlotFor(*above, facts.position, count - known);
  if (!slot || !pages.GrowTo(count)) return;
  copies_.slots.push_back({.from = leaving.hit.slot->id(), .to = slot->id()});
  for (int i = known; i < count; ++i) {
    copies_.pages.push_back({.from = from[i], .to = pages.ids()[i]});
  }
  facts.is_coming = true;
  planned_.push_back(
      cache_.Add(leaving.key, leaving.tokens, pages, *std::move(slot), facts));
}

int HostTier::PositionOnHost(const CacheQuery& query, int known) const {
  const int position = cache_.Look(query).position;
  if (position <= known) return 0;
  const int page_size = options_.cache.page_size;
  const int pages = (position + page_size - 1) / page_size - known / page_size;
  return SecondsToCopy(pages) < SecondsToRun(known, position) ? position : 0;
}

PrefixCache::Match HostTier::Look(const CacheQuery& query) const {
  const PrefixCache::Match match = device_.Look(query);
  const int position = PositionOnHost(query, match.position);
  return position > 0 ? device_.Look(query, position) : match;
}

PrefixCache::Hit HostTier::Take(const CacheQuery& query) {
  const int known = device_.Look(query).position;
  if (PositionOnHost(query, known) == 0) return device_.Take(query);
  device_.Miss(query);
  PrefixCache::Hit hit = cache_.Take(query);
  ++counts_.num_hits;
  counts_.num_hit_tokens += hit.from.position - known;
  hit.on_host = true;
  hit.shared = device_.Known(query.key, query.tokens, hit.first_written,
                             hit.from.has_drafter);
  hit.first_written = hit.shared->size();
  return hit;
}

double HostTier::BytesOf(const MemoryCopies& copies) const {
  const PrefixCacheOptions& cache = options_.cache;
  return static_cast<double>(copies.slots.size()) * cache.slot_bytes +
         static_cast<double>(copies.pages.size()) * cache.page_bytes;
}

void HostTier::Send(StepPlan& plan) {
  plan.to_host = std::exchange(copies_, {});
  sent_ = std::exchange(planned_, {});
  counts_.bytes_to_host += BytesOf(plan.to_host);
  counts_.bytes_from_host += BytesOf(plan.from_host);
}

void HostTier::Done() {
  for (const std::shared_ptr<const SlotLease>& slot : sent_) {
    cache_.Arrived(*slot);
  }
  sent_.clear();
}

void HostTier::Refused() {
  copies_ = {};
  planned_.clear();
  sent_.clear();
  cache_.DropIdle();
}

HostStatus HostTier::status() const {
  HostStatus status = counts_;
  status.slots = memory_.slots();
  status.pages = memory_.pages();
  status.num_checkpoints = cache_.num_checkpoints();
  status.num_evicted = cache_.num_evicted();
  return status;
}

std::string HostTier::Audit(MemoryReferences held) const {
  cache_.AddReferences(held);
  return memory_.Audit(held);
}

}  // namespace bole
