// Which spans of requests a worker has been told of.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_TOLD_SPANS_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_TOLD_SPANS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"
#include "scheduler_service/replicas/placement.h"
#include "scheduler_service/replicas/planner.h"

namespace bole {

// Dies with the connection: the worker ends what it was told by itself then.
// A value. Not thread-safe.
class ToldSpans {
 public:
  // What is traced of a round that is sent now, and which spans have ended
  // since the last one: those of placements that have left, and of those that
  // went on to another span. COST: O(placements of the round).
  PlanTrace TraceOf(const PlannedRound& round);
  // The same of spans alone, where no round is sent.
  std::vector<SpanId> TakeEnded();
  // The placement leaves.
  void Forget(const Placement& placement);

 private:
  void Add(const Placement& placement, bool is_prefill, int index,
           PlanTrace& trace);

  absl::flat_hash_map<const Placement*, SpanId> told_;
  std::vector<SpanId> ended_;  // The worker does not know it yet.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_TOLD_SPANS_H_
