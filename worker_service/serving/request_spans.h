// The spans that a worker itself records for traced requests.
#ifndef BOLE_WORKER_SERVICE_SERVING_REQUEST_SPANS_H_
#define BOLE_WORKER_SERVICE_SERVING_REQUEST_SPANS_H_

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
#include "worker_service/loop/compute_loop.h"

namespace bole {

// Sums up the engine's work for each span of the scheduler, over all plans that
// name it, into at most two child spans: "worker.prefill", with the number of
// chunks and their tokens, and "worker.rounds", with rounds, verified nodes,
// tokens and accepted drafts. A child lasts from the start of its first plan in
// the engine to the end of its last one. It also has the time that its plans
// took in the engine, which other requests share.
//
// A span goes to the exporter once the scheduler has said that it ended and
// every plan that names it is answered, or, with what is known by then, when
// the stream ends. Spans for which nothing has run are left out. If the process
// fails, its open spans are lost.
//
// Thread-safe. COST: nothing without an exporter; without traced requests, a
// mutex for each outcome.
class RequestSpans {
 public:
  // The most spans that are kept, so that a scheduler that ends none of them
  // uses only a bounded amount of memory.
  static constexpr size_t kMaxOpen = 8192;

  // `exporter` may be null, and outlives this.
  explicit RequestSpans(SpanExporter* exporter) : exporter_(exporter) {}

  // A plan of the open stream has arrived and is about to be queued. REQUIRES:
  // the indices of `trace` are within the plan (DecodeTrace()).
  void OnPlan(uint64_t stream, uint64_t sequence, const StepPlan& plan,
              const PlanTrace& trace);
  // No later plan names these parents.
  void End(const std::vector<SpanId>& parents);
  // A plan, or a round of its lease, was answered. Outcomes come in the order
  // of the plans.
  void OnOutcome(const ComputeOutcome& outcome);
  // The stream has ended, or another one begins: all spans end, and outcomes of
  // earlier plans are ignored from now on.
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
    int unanswered = 0;  // Plans that name the span.
    bool ended = false;
  };
  // A sequence of an unanswered plan, and its number of tokens or nodes.
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
  // The plan was answered for the last time.
  void Answered(const Planned& planned, std::vector<Span>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the span to `done` if it is complete.
  void Take(const Key& key, std::vector<Span>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Span SpanOf(const Key& key, const Open& open);
  void Export(std::vector<Span> done);

  SpanExporter* const exporter_;
  Mutex mutex_;
  std::map<Key, Open> open_ ABSL_GUARDED_BY(mutex_);
  // Unanswered plans that name spans, in order.
  std::deque<Planned> planned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_REQUEST_SPANS_H_
