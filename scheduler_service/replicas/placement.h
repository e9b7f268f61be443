// Where one job runs.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENT_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/proposal_tree.h"
#include "common/step.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

// A job on one worker: what it holds there, and how much of it the worker
// knows. Dies with the worker, and gives everything back when it is dropped.
// There is no other way to move a job than to drop its placement and make
// another one.
class Placement {
 public:
  // `job` must outlive it.
  Placement(Job& job, SlotLease slot, PageLease pages);

  // It goes on from a checkpoint. `pages` begin with those before
  // hit.first_written; the others are its own. The drafter follows if `follows`
  // and the checkpoint has it. REQUIRES: nothing has run.
  void StartFrom(PrefixCache::Hit hit, PageLease pages, bool follows);
  // Until its first round has ended, every plan of it needs these.
  void AddCopies(StepPlan& plan) const;
  // It needs the slot of a checkpoint besides its own.
  bool holds_checkpoint() const {
    return start_.from.position > 0 && !start_.on_host;
  }
  // A plan of it has run.
  bool has_run() const { return has_run_; }

  // It waits for another one that prefills what both begin with.
  bool waits() const { return waits_; }
  void set_waits(bool waits) { waits_ = waits; }

  // Where chunks end, besides the end of the prefill: checkpoints are made
  // there. Ascending, and beyond committed().
  void set_cuts(std::vector<int> cuts) { cuts_ = std::move(cuts); }
  const std::vector<int>& cuts() const { return cuts_; }
  // Tokens of the prefill before the next cut, or its end.
  int prefill_until_cut() const;
  // Committed are just the tokens up to a cut; the next one is then the one
  // after it.
  bool PassCut();

  Job& job() const { return job_; }
  int committed() const { return committed_; }
  bool in_prefill() const { return committed_ < job_.prefill_target(); }
  int prefill_left() const;  // 0 if it is past its prefill.
  bool has_emitted() const { return has_emitted_; }  // Here.
  const ProposalTree& tree() const { return tree_; }
  // The tree moves into a plan. Until the plan has an answer there is a lone
  // root in its place.
  ProposalTree TakeTree();
  // The last committed tokens that the drafter has not seen, and the pending
  // one, as SequencePlan::draft_tail has them.
  std::vector<int32_t> DraftTail() const;
  int num_undrafted() const { return num_undrafted_; }
  // The drafter has seen, or can be shown, all that is committed here: it may
  // draft. From Unfollow() on it sees nothing of this placement any more.
  bool is_followed() const { return is_followed_; }
  void Unfollow();
  PageLease& pages() { return pages_; }
  const PageLease& pages() const { return pages_; }

  // The next `count` tokens of the prefill. Asks for log probabilities of the
  // prompt if the job lacks any that the chunk can give.
  // REQUIRES: 0 < count <= prefill_left().
  PrefillPlan Chunk(int count) const;
  // For the forest. REQUIRES: !in_prefill().
  SequencePlan Plan() const;

  // The drafter was shown the draft tail.
  void SawTail() { num_undrafted_ = 0; }

  // Takes the part of a result that is about it, and tells the job. `deferred`:
  // the drafter, if it follows, is shown later what a forest has committed.
  Job::Progress Advance(SequenceResult result, bool deferred = false);

  // The worker was asked for log probabilities that it has not given.
  bool lacks_prompt_logprobs() const;

  // Tokens up to the last checkpoint that it has left or come from.
  int last_checkpoint() const { return last_checkpoint_; }
  void set_last_checkpoint(int position) { last_checkpoint_ = position; }
  // What its slot is worth as a checkpoint, with as many tokens as are known;
  // position 0: nothing.
  CheckpointFacts Facts() const;
  SlotId slot() const { return slot_.id(); }
  // It leaves, and its slot with it. REQUIRES: nothing else is called then.
  SlotLease TakeSlot() { return std::move(slot_); }

  // And of places on the host.
  void AddReferences(MemoryReferences& references,
                     MemoryReferences& on_host) const;

 private:
  Job& job_;
  SlotLease slot_;
  PageLease pages_;
  int committed_ = 0;
  int num_undrafted_ = 0;  // Committed tokens that the drafter has not seen.
  bool is_followed_ = true;
  bool has_run_ = false;
  bool waits_ = false;
  PrefixCache::Hit start_;  // Until it has run.
  std::vector<int> cuts_;
  int last_checkpoint_ = 0;
  bool has_emitted_ = false;
  ProposalTree tree_;  // Root: the pending token.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENT_H_
