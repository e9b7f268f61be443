// Where one job runs.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENT_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENT_H_

#include "common/proposal_tree.h"
#include "common/step.h"
#include "scheduler_service/jobs/job.h"
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

  Job& job() const { return job_; }
  int committed() const { return committed_; }
  bool in_prefill() const { return committed_ < job_.prefill_target(); }
  int prefill_left() const;  // 0 if it is past its prefill.
  bool has_emitted() const { return has_emitted_; }  // Here.
  const ProposalTree& tree() const { return tree_; }
  PageLease& pages() { return pages_; }
  const PageLease& pages() const { return pages_; }

  // The next `count` tokens of the prefill. Asks for log probabilities of the
  // prompt if the job lacks any that the chunk can give.
  // REQUIRES: 0 < count <= prefill_left().
  PrefillPlan Chunk(int count) const;
  // For the forest. REQUIRES: !in_prefill().
  SequencePlan Plan() const;

  // Takes the part of a result that is about it, and tells the job.
  Job::Progress Advance(SequenceResult result);

  // The worker was asked for log probabilities that it has not given.
  bool lacks_prompt_logprobs() const;

  void AddReferences(MemoryReferences& references) const;

 private:
  Job& job_;
  SlotLease slot_;
  PageLease pages_;
  int committed_ = 0;
  bool has_emitted_ = false;
  ProposalTree tree_;  // Root: the pending token.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENT_H_
