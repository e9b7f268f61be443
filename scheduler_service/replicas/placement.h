// The placement of one job on a worker.
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

// A job on one worker: what it holds there, and how much of it the worker has
// processed. It ends with the connection, and gives everything back when it is
// dropped. The only way to move a job is to drop its placement and make another
// one.
class Placement {
 public:
  // `job` must outlive it.
  Placement(Job& job, SlotLease slot, PageLease pages);

  // The job starts from a checkpoint. `pages` begin with those before
  // hit.first_written; the others are its own. The drafter follows it if
  // `follows` and the checkpoint has the drafter's state. REQUIRES: nothing has
  // run.
  void StartFrom(PrefixCache::Hit hit, PageLease pages, bool follows);
  // Every plan of it needs these copies until its first round has ended.
  void AddCopies(StepPlan& plan) const;
  // Whether it needs the slot of a checkpoint besides its own.
  bool holds_checkpoint() const {
    return start_.from.position > 0 && !start_.on_host;
  }
  // Whether a plan of it has run.
  bool has_run() const { return has_run_; }

  // Whether it waits for another placement that prefills their common prefix.
  bool waits() const { return waits_; }
  void set_waits(bool waits) { waits_ = waits; }

  // Positions where chunks end, besides the end of the prefill, because
  // checkpoints are made there. Ascending, and beyond committed().
  void set_cuts(std::vector<int> cuts) { cuts_ = std::move(cuts); }
  const std::vector<int>& cuts() const { return cuts_; }
  // Prefill tokens that are left before the next cut, or before the end.
  int prefill_until_cut() const;
  // Whether exactly the tokens before the next cut are committed. A cut that is
  // reached or passed is removed.
  bool PassCut();

  Job& job() const { return job_; }
  int committed() const { return committed_; }
  bool in_prefill() const { return committed_ < job_.prefill_target(); }
  int prefill_left() const;                          // 0 after its prefill.
  bool has_emitted() const { return has_emitted_; }  // Here.
  const ProposalTree& tree() const { return tree_; }
  // Moves the tree into a plan. A lone root takes its place until the plan is
  // answered.
  ProposalTree TakeTree();
  // The value of SequencePlan::draft_tail: the last committed tokens, which the
  // drafter has not seen, and the pending one.
  std::vector<int32_t> DraftTail() const;
  int num_undrafted() const { return num_undrafted_; }
  // Whether the drafter has seen, or can be shown, all committed tokens, so
  // that it may draft. After Unfollow() it sees nothing of this placement any
  // more.
  bool is_followed() const { return is_followed_; }
  void Unfollow();
  PageLease& pages() { return pages_; }
  const PageLease& pages() const { return pages_; }

  // The next `count` tokens of the prefill. Requests log probabilities of the
  // prompt if the job lacks any that the chunk can give.
  // REQUIRES: 0 < count <= prefill_left().
  PrefillPlan Chunk(int count) const;
  // For the forest. REQUIRES: !in_prefill().
  SequencePlan Plan() const;

  // The drafter was shown the draft tail.
  void SawTail() { num_undrafted_ = 0; }

  // Applies this placement's part of a result, and tells the job. `deferred`: a
  // drafter that follows is shown later the tokens that a forest has committed.
  Job::Progress Advance(SequenceResult result, bool deferred = false);

  // Whether the worker has not returned log probabilities that were requested.
  bool lacks_prompt_logprobs() const;

  // The position of the last checkpoint that it has made or started from.
  int last_checkpoint() const { return last_checkpoint_; }
  void set_last_checkpoint(int position) { last_checkpoint_ = position; }
  // The facts of a checkpoint that its slot would be; position 0: it would be
  // none.
  CheckpointFacts Facts() const;
  SlotId slot() const { return slot_.id(); }
  // Takes the slot away when the placement leaves. REQUIRES: nothing else is
  // called then.
  SlotLease TakeSlot() { return std::move(slot_); }

  // Also adds the references to slots and pages of the host.
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
