// Records which spans of requests a worker has been told about.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_TOLD_SPANS_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_TOLD_SPANS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"
#include "scheduler_service/replicas/placement.h"
#include "scheduler_service/replicas/planner.h"

namespace bole {

// It ends with the connection: the worker then ends all these spans by itself.
// A value. Not thread-safe.
class ToldSpans {
 public:
  // The trace of a round that is sent now, and the spans that have ended since
  // the last one: those of placements that have left or have begun another
  // span. COST: O(placements of the round).
  PlanTrace TraceOf(const PlannedRound& round);
  // Only the spans that have ended, if no round is sent.
  std::vector<SpanId> TakeEnded();
  // Called when the placement leaves.
  void Forget(const Placement& placement);

 private:
  void Add(const Placement& placement, bool is_prefill, int index,
           PlanTrace& trace);

  absl::flat_hash_map<const Placement*, SpanId> told_;
  std::vector<SpanId> ended_;  // The worker has not been told.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_TOLD_SPANS_H_
