// A worker's own spans of the requests that are traced.
#ifndef BOLE_WORKER_SERVICE_REQUEST_SPANS_H_
#define BOLE_WORKER_SERVICE_REQUEST_SPANS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "common/trace/span.h"
#include "common/trace/span_exporter.h"
#include "common/trace/trace_context.h"
#include "worker_service/compute_loop.h"

namespace bole {

// Sums up what the engine does for each span of the scheduler, over as many
// plans as name it, into at most two children: "worker.prefill", with chunks
// and their tokens, and "worker.rounds", with rounds, the nodes that were
// verified, tokens, and accepted drafts. Each lasts from the begin of its first
// plan in the engine to the end of its last one, and has the time in the engine
// of its plans, which other requests share.
//
// A span goes to the exporter once the scheduler has said that it ended and
// every plan that names it is answered; or when the stream ends, with what is
// known by then. Spans for which nothing has run are left out. Those of a
// process that ends by a failure are lost with it.
//
// Thread-safe. COST: nothing without an exporter; without traced requests a
// mutex for each outcome.
class RequestSpans {
 public:
  // More are not kept, so that a scheduler that ends none costs a bounded
  // amount of memory.
  static constexpr size_t kMaxOpen = 8192;

  // `exporter` may be null, and outlives this.
  explicit RequestSpans(SpanExporter* exporter) : exporter_(exporter) {}

  // A plan of the open stream came, and is about to be queued. REQUIRES: the
  // indices of `trace` are within the plan (DecodeTrace()).
  void OnPlan(uint64_t stream, uint64_t sequence, const StepPlan& plan,
              const PlanTrace& trace);
  // No later plan names these parents.
  void End(const std::vector<SpanId>& parents);
  // A plan, or a round of its lease, was answered. Outcomes come in the order
  // of the plans.
  void OnOutcome(const ComputeOutcome& outcome);
  // The stream has ended, or another one begins: all spans end, and outcomes of
  // earlier plans are of no interest any more.
  void EndAll();

 private:
  struct Key {
    SpanId parent;
    bool is_prefill;

    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Open {
    TraceId trace_id;
    int64_t start_ns = 0;  // Since 1970; 0: nothing has run.
    int64_t end_ns = 0;
    double engine_seconds = 0;
    int64_t rounds = 0;  // Or chunks.
    int64_t nodes = 0;
    int64_t tokens = 0;
    int64_t accepted_drafts = 0;
    int unanswered = 0;  // Plans that name it.
    bool ended = false;
  };
  // A sequence of a plan on its way, and its tokens or nodes.
  struct Row {
    Key key;
    int index;
    int64_t size;
  };
  struct Planned {
    uint64_t stream;
    uint64_t sequence;
    std::vector<Row> rows;
  };

  void Begin(const TracedSequence& traced, const StepPlan& plan,
             std::vector<Row>& rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndParents(const std::vector<SpanId>& parents, std::vector<Span>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const Row& row, const ComputeOutcome& outcome, int64_t now_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The plan has its last answer.
  void Answered(const Planned& planned, std::vector<Span>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the span out if it is complete.
  void Take(const Key& key, std::vector<Span>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Span SpanOf(const Key& key, const Open& open);
  void Export(std::vector<Span> done);

  SpanExporter* const exporter_;
  Mutex mutex_;
  std::map<Key, Open> open_ ABSL_GUARDED_BY(mutex_);
  // Those that name spans, in their order.
  std::deque<Planned> planned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_REQUEST_SPANS_H_
