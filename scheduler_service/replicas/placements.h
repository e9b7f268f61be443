// The jobs that run on a worker, and how its memory is shared among them.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENTS_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/checkpoint_copies.h"
#include "scheduler_service/replicas/host_tier.h"
#include "scheduler_service/replicas/placement.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

// The placements of one connection in the order of their jobs' arrival. A job
// gets a slot and the pages of its prefill when it is placed, and more pages as
// it grows.
//
// A round needs pages for the prefill or for the pending token, and for the
// drafter's rows after it. When the pages run out, the job that arrived last is
// evicted, to be prefilled again later. Pages for the rest of a tree are taken
// only while any are free: without them the tree is cut to what the pages hold
// (PlanRound()). So the oldest job always advances and never leaves, and one
// that Fits() ends even if it needs every page of the worker.
//
// With a prefix cache a job starts from the deepest checkpoint of its tokens,
// and makes checkpoints during its prefill, at the end of its prompt, and when
// it leaves (PrefixCache). The cache uses the memory that jobs leave free, and
// yields it to them; what it evicts goes to the host, if the worker has memory
// there (HostTier). Jobs that begin with the same tokens as one that is being
// prefilled wait for its checkpoints.
//
// Not thread-safe.
class Placements {
 public:
  // Without `cache` nothing is kept. `token_seconds`: as in HostTierOptions.
  Placements(const StepLimits& limits, const RoundBounds& bounds,
             int max_running,
             const std::optional<PrefixCacheOptions>& cache = std::nullopt,
             double token_seconds = kLeastTokenSeconds);

  // INVALID_ARGUMENT, with the numbers, if the job can never run here: it is
  // longer than the context, or than all pages together hold.
  absl::Status Fits(const Job& job) const;

  // The room for jobs that are not placed yet.
  struct Room {
    int jobs = 0;
    int pages = 0;  // One for each running job is kept back.
  };
  Room room() const;
  // The pages that `job` needs to be placed.
  int PagesToPlace(const Job& job) const;
  bool HasRoomFor(const Job& job) const;
  // The pages that others could get if it left.
  int PagesFreedBy(const Placement& placement) const;
  // The share of the worker that `job` takes when it is placed, in millionths:
  // of the places or of the pages, whichever is more.
  int64_t ShareOf(const Job& job) const;
  // The prefix of the job's tokens that the cache has. COST: O(tokens).
  PrefixCache::Match Look(const Job& job) const;
  // Places the job, and returns what it starts from. REQUIRES: HasRoomFor(job);
  // the job has no other placement.
  PrefixCache::Match Place(Job& job);
  // Lets placements that have waited for a checkpoint (Placement::waits())
  // start from it, and returns what they start from. Called before a round is
  // planned.
  std::vector<std::pair<Job*, PrefixCache::Match>> EndWaits();

  // Gives out the pages for the coming round. If they do not suffice, it evicts
  // jobs: it drops their placements and returns the jobs. The oldest is never
  // among them.
  std::vector<Job*> Grow();

  // Gives out the pages for all rounds of the plan's lease to its sequences,
  // writes them into the plan, and returns true if enough are free; otherwise
  // nothing changes. REQUIRES: the sequences are these placements; Grow() gave
  // those of the first round.
  bool GrowFor(std::span<Placement* const> sequences, StepPlan& plan);

  // Gives back all that the placement holds. With `keep` its slot becomes a
  // checkpoint: use it only if no plan of it is on its way, and its memory is
  // valid. REQUIRES: it is one of these.
  void Drop(Placement& placement, bool keep = false);

  // A round of the placement has ended, and it continues. A checkpoint is made
  // if it has reached a position where one should be.
  void Passed(Placement& placement);
  // Adds to a plan the copies that have to be made before its round.
  void AddCopies(std::span<Placement* const> prefills,
                 std::span<Placement* const> sequences, StepPlan& plan);
  // The first round of the plan has ended, or it was refused.
  void CopiesDone();
  void CopiesRefused();

  size_t size() const { return all_.size(); }
  bool empty() const { return all_.empty(); }
  const std::vector<std::unique_ptr<Placement>>& all() const { return all_; }
  // REQUIRES: the job is placed here.
  Placement& Find(const Job& job) const;
  // Prompt tokens to be run until no placement is in prefill.
  int64_t PrefillLeft() const;
  int NumInPrefill() const;

  const WorkerMemory& memory() const { return memory_; }
  // For the status. What the cache holds counts as free.
  PoolStatus slots() const;
  PoolStatus pages() const;
  bool has_cache() const { return cache_.has_value(); }
  int num_checkpoints() const { return cache_ ? cache_->num_checkpoints() : 0; }
  int64_t num_evicted() const { return cache_ ? cache_->num_evicted() : 0; }
  // Null: the worker keeps nothing on its host.
  const HostTier* host() const { return host_.get(); }
  // Empty if every slot and page is either free or held; else what is wrong.
  std::string Audit() const;

 private:
  // Takes free pages, or those of the cache, until `pages` has `count`.
  bool Claim(PageLease& pages, int count);
  bool FreePages(int count);
  std::optional<SlotLease> ClaimSlot();
  PrefixCache::Hit Take(const CacheQuery& query) {
    return host_ ? host_->Take(query) : cache_->Take(query);
  }
  // Lets the placement start from what the cache has.
  bool Adopt(Placement& placement, PrefixCache::Hit hit);
  // Whether another placement prefills its prefix beyond `known` tokens.
  bool ShouldWait(const Placement& placement, int known) const;
  void PlanCuts(Placement& placement, const PrefixCache::Match& match) const;
  int PagesForRows(int kv_rows) const;
  // Pages for `committed` tokens and a round of `rows` after them.
  int PagesFor(int committed, int rows) const;
  // The rows of the coming round if there are pages for all of them.
  int MostRows(const Placement& placement) const;

  const StepLimits limits_;
  const RoundBounds bounds_;
  const int max_running_;
  // In this order, so that each is destroyed before those that it uses.
  WorkerMemory memory_;
  std::optional<PrefixCache> cache_;
  std::unique_ptr<HostTier> host_;
  CheckpointCopies checkpoints_;
  std::vector<std::unique_ptr<Placement>> all_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENTS_H_
