#include "scheduler_service/replicas/told_spans.h"

#include <optional>
#include <utility>

#include "scheduler_service/watch/request_watch.h"

namespace bole {

PlanTrace ToldSpans::TraceOf(const PlannedRound& round) {
  PlanTrace trace;
  int index = 0;
  for (const Placement* placement : round.prefills) {
    Add(*placement, /*is_prefill=*/true, index++, trace);
  }
  index = 0;
  for (const Placement* placement : round.sequences) {
    Add(*placement, /*is_prefill=*/false, index++, trace);
  }
  trace.ended = TakeEnded();
  return trace;
}

void ToldSpans::Add(const Placement& placement, bool is_prefill, int index,
                    PlanTrace& trace) {
  const RequestWatch* const watch = placement.job().request().watch.get();
  if (watch == nullptr) return;
  const std::optional<TraceContext> span = watch->span();
  if (!span) return;
  const auto [told, is_new] = told_.try_emplace(&placement, span->span_id);
  if (!is_new && told->second != span->span_id) {
    ended_.push_back(std::exchange(told->second, span->span_id));
  }
  trace.sequences.push_back({.is_prefill = is_prefill,
                             .index = index,
                             .trace_id = span->trace_id,
                             .parent = span->span_id});
}

std::vector<SpanId> ToldSpans::TakeEnded() { return std::exchange(ended_, {}); }

void ToldSpans::Forget(const Placement& placement) {
  const auto told = told_.find(&placement);
  if (told == told_.end()) return;
  ended_.push_back(told->second);
  told_.erase(told);
}

}  // namespace bole
