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

// Gives slots and pages of one worker to sequences. A sequence gets a slot and
// the pages of its prefill when it is admitted, and more pages as it grows;
// when they run out, the sequence that came last gives its place up, to be
// prefilled again later. So the oldest always gets on, and nothing runs out in
// mid-flight.
//
// Not thread-safe.
class Batch {
 public:
  // `max_rows`: nodes that a sequence verifies in a round, at most.
  Batch(const StepLimits& limits, const std::optional<DraftShape>& draft,
        int max_rows, int max_running);

  // Whether it can ever run here. RESOURCE_EXHAUSTED, with the numbers, if all
  // the pages together do not hold it.
  absl::Status Fits(const Sequence& sequence) const;

  // Admits `sequence` if there is room for it now, and leaves it otherwise.
  bool Admit(std::unique_ptr<Sequence>& sequence);

  // Pages for the coming round. Returns the sequences that had to make room,
  // without slot and pages, oldest first.
  std::vector<std::unique_ptr<Sequence>> Grow();

  // Pages for all rounds of `lease`, if there are as many without anyone having
  // to leave; else nothing changes. REQUIRES: Grow() gave those of the first.
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
  // Rows of the coming round.
  int RowsOf(const Sequence& sequence) const;
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
