// The sequences that run together, and the numbers they hold.
#ifndef BOLE_SCHEDULER_SERVICE_BATCH_H_
#define BOLE_SCHEDULER_SERVICE_BATCH_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "common/ids.h"
#include "common/step.h"
#include "scheduler_service/number_pool.h"
#include "scheduler_service/scheduler_status.h"
#include "scheduler_service/sequence.h"

namespace bole {

// Gives the slots and pages of one worker to sequences. A sequence gets a slot
// and the pages of its prefill when it is admitted, and more pages as it grows.
//
// A round needs pages for the prefill or for the pending token, and for the
// drafter's rows behind it. When those run out, the sequence that came last is
// evicted, to be prefilled again later. Pages for the rest of a tree are taken
// only while any are free: without them the tree is cut to what the pages hold
// (PlanRound()). So the oldest sequence always advances and never leaves, and
// one that Fits() ends even if it needs every page of the worker.
//
// Not thread-safe.
class Batch {
 public:
  // `max_rows` is the largest number of nodes that a sequence verifies in a
  // round.
  Batch(const StepLimits& limits, const std::optional<DraftShape>& draft,
        int max_rows, int max_running);

  // INVALID_ARGUMENT, with the numbers, if the sequence can never run here: it
  // is longer than the context, or than all pages together hold.
  absl::Status Fits(const Sequence& sequence) const;

  // Admits `sequence` if there is room for it now, and leaves it otherwise.
  bool Admit(std::unique_ptr<Sequence>& sequence);

  // Gives out the pages for the coming round. Returns the sequences that were
  // evicted, without slot and pages, oldest first. The oldest that runs is
  // never among them.
  std::vector<std::unique_ptr<Sequence>> Grow();

  // Gives out the pages for all rounds of `lease` and returns true if enough
  // are free; otherwise nothing changes. REQUIRES: Grow() gave those of the
  // first round.
  bool GrowFor(const Lease& lease);

  // Takes a sequence out; it gives back all that it holds.
  std::unique_ptr<Sequence> Remove(const Sequence& sequence);

  // In the order of their arrival.
  const std::vector<std::unique_ptr<Sequence>>& running() const {
    return running_;
  }

  PoolStatus slots() const { return {slots_.total(), slots_.num_free()}; }
  PoolStatus pages() const { return {pages_.total(), pages_.num_free()}; }

  // Empty if free and held numbers are all there are, each held once; else what
  // is wrong.
  std::string Audit() const;

 private:
  // Pages for `committed` tokens and a round of `rows` after them.
  int PagesFor(int committed, int rows) const;
  // Rows without which the sequence has no coming round: those of its prefill,
  // or the pending token.
  static int LeastRows(const Sequence& sequence);
  // Rows of the coming round if there are pages for all of them.
  int MostRows(const Sequence& sequence) const;
  // Takes free pages until the sequence has `count`, or none is left. Returns
  // whether it has as many.
  bool TakePages(Sequence& sequence, int count);
  void Release(Sequence& sequence);

  const StepLimits limits_;
  const std::optional<DraftShape> draft_;
  const int max_rows_;
  const int max_running_;
  NumberPool<SlotId> slots_;
  NumberPool<PageId> pages_;
  std::vector<std::unique_ptr<Sequence>> running_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_BATCH_H_
