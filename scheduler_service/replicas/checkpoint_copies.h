// Checkpoints that a worker is told to make of slots that go on.
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

// A checkpoint is planned when a slot stands where one should be, goes to the
// worker with the next plan, before whose round it is copied, and is the
// cache's once that plan has run.
//
// Not thread-safe.
class CheckpointCopies {
 public:
  struct Copy {
    std::string key;              // CacheQuery::key
    std::vector<int32_t> tokens;  // facts.position of them.
    PageLease pages;              // Those of the tokens.
    SlotId from;
    SlotLease to;
    CheckpointFacts facts;
  };
  void Plan(Copy copy) { planned_.push_back(std::move(copy)); }
  // Whoever had the slot has left: nothing is to be copied from it any more.
  void Forget(SlotId from);
  // Gives back all that has not been sent.
  void Clear() { planned_.clear(); }

  // Moves what was planned into the plan that is sent.
  void Send(MemoryCopies& copies);
  // What became of the plan that was sent last.
  void Done(PrefixCache& cache);
  void Refused() { sent_.clear(); }

  // Whether a checkpoint of these tokens is on its way, of `least` of them at
  // least, but not of all. COST: O(copies + tokens).
  bool Awaits(const CacheQuery& query, int least) const;

  void AddReferences(MemoryReferences& references) const;

 private:
  std::vector<Copy> planned_;
  std::vector<Copy> sent_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_CHECKPOINT_COPIES_H_
