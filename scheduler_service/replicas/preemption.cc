#include "scheduler_service/replicas/preemption.h"

#include <algorithm>
#include <memory>

#include "common/check.h"

namespace bole {
namespace {

bool MayLeave(const Placement& placement, const Job& job) {
  const Job& other = placement.job();
  return placement.has_emitted() && !other.is_suspect() &&
         other.request().tenant != job.request().tenant;
}

bool LeavesBefore(const Placement* a, const Placement* b) {
  const int first = a->job().request().priority;
  const int second = b->job().request().priority;
  return first != second ? first < second : ByArrival()(b->job(), a->job());
}

// The placements that may leave, all of the tenant that holds most, in the
// order in which they would leave.
std::vector<const Placement*> Candidates(const Job& job, const HeldShares& held,
                                         const Placements& placements) {
  std::vector<const Placement*> of_richest;
  int64_t most = 0;
  for (const std::unique_ptr<Placement>& placement : placements.all()) {
    if (!MayLeave(*placement, job)) continue;
    const std::string& tenant = placement->job().request().tenant;
    const bool same = !of_richest.empty() &&
                      of_richest.back()->job().request().tenant == tenant;
    const int64_t holds = same ? most : held.Of(tenant);
    if (!same && holds <= most) continue;
    if (!same) of_richest.clear();
    most = holds;
    of_richest.push_back(placement.get());
  }
  std::sort(of_richest.begin(), of_richest.end(), LeavesBefore);
  return of_richest;
}

}  // namespace

void HeldShares::Add(const std::string& tenant, int64_t share) {
  held_[tenant] += share;
}

void HeldShares::Remove(const std::string& tenant, int64_t share) {
  const auto found = held_.find(tenant);
  BOLE_CHECK(found != held_.end() && found->second >= share);
  found->second -= share;
  if (found->second == 0) held_.erase(found);
}

int64_t HeldShares::Of(const std::string& tenant) const {
  const auto found = held_.find(tenant);
  return found == held_.end() ? 0 : found->second;
}

std::vector<Job*> FindVictims(const Job& job, const HeldShares& held,
                              const Placements& placements) {
  const std::vector<const Placement*> candidates =
      Candidates(job, held, placements);
  if (candidates.empty()) return {};
  const int64_t ours = held.Of(job.request().tenant) + placements.ShareOf(job);
  int64_t theirs = held.Of(candidates[0]->job().request().tenant);
  const int pages = placements.PagesToPlace(job);
  Placements::Room room = placements.room();
  std::vector<Job*> victims;
  for (const Placement* candidate : candidates) {
    theirs -= placements.ShareOf(candidate->job());
    if (2 * theirs < 3 * ours) return {};
    victims.push_back(&candidate->job());
    ++room.jobs;
    room.pages += placements.PagesFreedBy(*candidate) + 1;
    if (room.jobs > 0 && room.pages >= pages) return victims;
  }
  return {};
}

}  // namespace bole
