// The jobs that run on a worker, and how its memory is shared among them.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENTS_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/placement.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

// The placements of one connection in the order of their jobs' arrival. A job
// gets a slot and the pages of its prefill when it is placed, and more pages as
// it grows.
//
// A round needs pages for the prefill or for the pending token, and for the
// drafter's rows behind it. When those run out, the job that came last is
// evicted, to be prefilled again later. Pages for the rest of a tree are taken
// only while any are free: without them the tree is cut to what the pages hold
// (PlanRound()). So the oldest job always advances and never leaves, and one
// that Fits() ends even if it needs every page of the worker.
//
// Not thread-safe.
class Placements {
 public:
  Placements(const StepLimits& limits, const RoundBounds& bounds,
             int max_running);

  // INVALID_ARGUMENT, with the numbers, if the job can never run here: it is
  // longer than the context, or than all pages together hold.
  absl::Status Fits(const Job& job) const;

  // What is free for jobs that are not placed yet.
  struct Room {
    int jobs = 0;
    int pages = 0;  // Without a page for each job that runs, to grow.
  };
  Room room() const;
  // Pages without which `job` cannot be placed.
  int PagesToPlace(const Job& job) const;
  bool HasRoomFor(const Job& job) const;
  // How much of the worker `job` takes when it is placed, in millionths: of the
  // places or of the pages, whichever is more.
  int64_t ShareOf(const Job& job) const;
  // REQUIRES: HasRoomFor(job); the job has no other placement.
  void Place(Job& job);

  // Gives out the pages for the coming round, and drops the placements of those
  // that it evicts, who are returned. The oldest is never among them.
  std::vector<Job*> Grow();

  // Gives out the pages for all rounds of the plan's lease to its sequences,
  // writes them into the plan, and returns true if enough are free; otherwise
  // nothing changes. REQUIRES: the sequences are these placements; Grow() gave
  // those of the first round.
  bool GrowFor(std::span<Placement* const> sequences, StepPlan& plan);

  // Gives back all that it holds. REQUIRES: it is one of these.
  void Drop(const Placement& placement);

  size_t size() const { return all_.size(); }
  bool empty() const { return all_.empty(); }
  const std::vector<std::unique_ptr<Placement>>& all() const { return all_; }
  // REQUIRES: the job is placed here.
  Placement& Find(const Job& job) const;
  // Prompt tokens that are to be run before the last of them decodes.
  int64_t PrefillLeft() const;
  int NumInPrefill() const;

  const WorkerMemory& memory() const { return memory_; }
  // Empty if free and held numbers are all there are; else what is wrong.
  std::string Audit() const;

 private:
  int PagesForRows(int kv_rows) const;
  // Pages for `committed` tokens and a round of `rows` after them.
  int PagesFor(int committed, int rows) const;
  // Rows of the coming round if there are pages for all of them.
  int MostRows(const Placement& placement) const;

  const StepLimits limits_;
  const RoundBounds bounds_;
  const int max_running_;
  WorkerMemory memory_;
  std::vector<std::unique_ptr<Placement>> all_;  // Before the memory goes.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PLACEMENTS_H_
