// Which parts of a plan belong to traces.
#ifndef BOLE_COMMON_TRACE_PLAN_TRACE_H_
#define BOLE_COMMON_TRACE_PLAN_TRACE_H_

#include <vector>

#include "common/trace/trace_context.h"

namespace bole {

// A sequence of a plan whose request is sampled.
struct TracedSequence {
  bool is_prefill = false;  // It is among the plan's prefills.
  int index = 0;            // Into those, or into the plan's sequences.
  TraceId trace_id = {};
  SpanId parent = {};  // The scheduler's span; the worker's go below it.

  friend bool operator==(const TracedSequence&,
                         const TracedSequence&) = default;
};

// What is sent to a worker besides a plan. Without sampled requests both lists
// are empty, and nothing is sent.
struct PlanTrace {
  std::vector<TracedSequence> sequences = {};
  // Parents that neither this plan nor a later one names: the worker's spans
  // below them end with the plans that it was sent before this one.
  std::vector<SpanId> ended = {};

  bool empty() const { return sequences.empty() && ended.empty(); }

  friend bool operator==(const PlanTrace&, const PlanTrace&) = default;
};

}  // namespace bole

#endif  // BOLE_COMMON_TRACE_PLAN_TRACE_H_
