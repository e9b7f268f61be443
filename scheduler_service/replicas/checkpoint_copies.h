// Checkpoints that a worker makes by copying slots that stay in use.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_CHECKPOINT_COPIES_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_CHECKPOINT_COPIES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/step.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

// A checkpoint is planned when a slot has reached a position where one should
// be. It goes to the worker with the next plan, is copied before that plan's
// round, and belongs to the cache once the plan has run.
//
// Not thread-safe.
class CheckpointCopies {
 public:
  struct Copy {
    std::string key;              // CacheQuery::key
    std::vector<int32_t> tokens;  // facts.position of them.
    PageLease pages;              // The pages of the tokens.
    SlotId from;
    SlotLease to;
    CheckpointFacts facts;
  };
  void Plan(Copy copy) { planned_.push_back(std::move(copy)); }
  // The slot's placement has left: nothing is to be copied from it any more.
  void Forget(SlotId from);
  // Gives back everything that has not been sent.
  void Clear() { planned_.clear(); }

  // Moves the planned copies into the plan that is sent.
  void Send(MemoryCopies& copies);
  // The plan that was sent last has run, or was refused.
  void Done(PrefixCache& cache);
  void Refused() { sent_.clear(); }

  // Whether a checkpoint of at least `least` of these tokens, but not of all,
  // is on its way. COST: O(copies + tokens).
  bool Awaits(const CacheQuery& query, int least) const;

  void AddReferences(MemoryReferences& references) const;

 private:
  std::vector<Copy> planned_;
  std::vector<Copy> sent_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_CHECKPOINT_COPIES_H_
