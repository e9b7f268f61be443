#include "worker_service/serving/request_spans.h"

#include <chrono>
#include <utility>

#include "common/packed_forest.h"

namespace bole {
namespace {

int64_t UnixNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t NumNodes(const PackedForest& forest, int request) {
  return forest.first_node[request + 1] - forest.first_node[request];
}

}  // namespace

void RequestSpans::OnPlan(uint64_t stream, uint64_t sequence,
                          const StepPlan& plan, const PlanTrace& trace) {
  if (exporter_ == nullptr || trace.empty()) return;
  std::vector<Span> done;
  {
    MutexLock lock(mutex_);
    EndParents(trace.ended, done);
    std::vector<Row> rows;
    for (const TracedSequence& traced : trace.sequences) {
      Begin(traced, plan, rows);
    }
    if (!rows.empty()) {
      planned_.push_back({stream, sequence, std::move(rows)});
    }
  }
  Export(std::move(done));
}

void RequestSpans::Begin(const TracedSequence& traced, const StepPlan& plan,
                         std::vector<Row>& rows) {
  const Key key{traced.parent, traced.is_prefill};
  if (open_.size() >= kMaxOpen && !open_.contains(key)) return;
  Open& open = open_[key];
  open.trace_id = traced.trace_id;
  ++open.unanswered;
  int64_t size = 0;
  if (traced.is_prefill) {
    size = static_cast<int64_t>(plan.prefills[traced.index].tokens.size());
  } else if (traced.index < plan.forest.num_requests()) {
    size = NumNodes(plan.forest, traced.index);
  }
  rows.push_back({key, traced.index, size});
}

void RequestSpans::End(const std::vector<SpanId>& parents) {
  if (exporter_ == nullptr || parents.empty()) return;
  std::vector<Span> done;
  {
    MutexLock lock(mutex_);
    EndParents(parents, done);
  }
  Export(std::move(done));
}

void RequestSpans::EndParents(const std::vector<SpanId>& parents,
                              std::vector<Span>& done) {
  for (const SpanId& parent : parents) {
    for (const bool is_prefill : {true, false}) {
      const Key key{parent, is_prefill};
      const auto at = open_.find(key);
      if (at == open_.end()) continue;
      at->second.ended = true;
      Take(key, done);
    }
  }
}

void RequestSpans::OnOutcome(const ComputeOutcome& outcome) {
  if (exporter_ == nullptr) return;
  std::vector<Span> done;
  {
    MutexLock lock(mutex_);
    if (planned_.empty()) return;
    const Planned& planned = planned_.front();
    if (planned.stream != outcome.stream ||
        planned.sequence != outcome.sequence) {
      return;
    }
    if (outcome.result.ok()) {
      const int64_t now_ns = UnixNanoseconds();
      for (const Row& row : planned.rows) Count(row, outcome, now_ns);
    }
    if (!outcome.is_last()) return;
    Answered(planned, done);
    planned_.pop_front();
  }
  Export(std::move(done));
}

void RequestSpans::Count(const Row& row, const ComputeOutcome& outcome,
                         int64_t now_ns) {
  const StepResult& result = *outcome.result;
  int64_t size = row.size;
  if (result.round > 0) {
    // Only the sequences that still have nodes take part in a further round of
    // a lease.
    if (row.key.is_prefill || !result.forest) return;
    size = NumNodes(*result.forest, row.index);
    if (size == 0) return;
  }
  Open& open = open_[row.key];
  if (open.start_ns == 0) {
    open.start_ns = now_ns - static_cast<int64_t>(outcome.step_seconds * 1e9);
  }
  open.end_ns = now_ns;
  open.engine_seconds += outcome.step_seconds;
  ++open.rounds;
  if (row.key.is_prefill) {
    open.tokens += size;
    return;
  }
  open.nodes += size;
  const SequenceResult& sequence = result.sequences[row.index];
  open.tokens += static_cast<int64_t>(sequence.emitted.size());
  open.accepted_drafts += sequence.accepted_drafts;
}

void RequestSpans::Answered(const Planned& planned, std::vector<Span>& done) {
  for (const Row& row : planned.rows) {
    --open_[row.key].unanswered;
    Take(row.key, done);
  }
}

void RequestSpans::Take(const Key& key, std::vector<Span>& done) {
  const auto at = open_.find(key);
  const Open& open = at->second;
  if (!open.ended || open.unanswered > 0) return;
  if (open.start_ns != 0) done.push_back(SpanOf(key, open));
  open_.erase(at);
}

void RequestSpans::EndAll() {
  if (exporter_ == nullptr) return;
  std::vector<Span> done;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, open] : open_) {
      if (open.start_ns != 0) done.push_back(SpanOf(key, open));
    }
    open_.clear();
    planned_.clear();
  }
  Export(std::move(done));
}

Span RequestSpans::SpanOf(const Key& key, const Open& open) {
  Span span{.trace_id = open.trace_id,
            .span_id = NewSpanId(),
            .parent = key.parent,
            .name = key.is_prefill ? "worker.prefill" : "worker.rounds",
            .start_ns = open.start_ns,
            .end_ns = open.end_ns,
            .attributes = {{"bole.tokens", open.tokens},
                           {"bole.engine_seconds", open.engine_seconds}}};
  if (key.is_prefill) {
    span.attributes.emplace_back("bole.chunks", open.rounds);
  } else {
    span.attributes.emplace_back("bole.rounds", open.rounds);
    span.attributes.emplace_back("bole.nodes", open.nodes);
    span.attributes.emplace_back("bole.accepted_drafts", open.accepted_drafts);
  }
  return span;
}

void RequestSpans::Export(std::vector<Span> done) {
  if (!done.empty()) exporter_->Add(std::move(done));
}

}  // namespace bole
