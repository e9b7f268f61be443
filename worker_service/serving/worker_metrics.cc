#include "worker_service/serving/worker_metrics.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "common/net/certificate_metrics.h"
#include "common/net/metric_families.h"
#include "common/net/metrics_page.h"
#include "common/net/process_metrics.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"

namespace bole {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

// Buckets for the time in the engine, in seconds.
const Histogram::BucketBoundaries& StepBuckets() {
  static const Histogram::BucketBoundaries buckets = {
      .0005, .001, .002, .004, .008, .016, .032, .064,
      .128,  .256, .512, 1,    2,    4,    8,    16};
  return buckets;
}

double NumBadLogits(const StepResult& result) {
  const auto is_bad = [](const SequenceResult& one) {
    return one.bad_logits_position.has_value();
  };
  return static_cast<double>(std::ranges::count_if(result.prefills, is_bad) +
                             std::ranges::count_if(result.sequences, is_bad));
}

}  // namespace

struct WorkerMetrics::Families {
  std::shared_ptr<Registry> owner = std::make_shared<Registry>();
  Registry& registry = *owner;

  Counter& steps =
      Counters(registry, "bole_worker_steps_total", "Plans that were run.")
          .Add({});
  Family<Counter>& failures =
      Counters(registry, "bole_worker_failures_total",
               "Plans that ended the worker, by reason: error (the engine "
               "failed or a rank was lost), hang (no result within the step "
               "timeout).");
  Counter& errors = failures.Add({{"reason", "error"}});
  Counter& hangs = failures.Add({{"reason", "hang"}});
  Histogram& step_seconds = prometheus::BuildHistogram()
                                .Name("bole_step_seconds")
                                .Help("Time of a plan in the engine.")
                                .Register(registry)
                                .Add({}, StepBuckets());
  Counter& graph_misses =
      Counters(registry, "bole_graph_misses_total",
               "Rounds that no captured graph was kept for: queued operator by "
               "operator, and then captured.")
          .Add({});
  Counter& prefill_tokens =
      Counters(registry, "bole_worker_prefill_tokens_total",
               "Tokens run in prefill chunks.")
          .Add({});
  Counter& nodes = Counters(registry, "bole_worker_nodes_total",
                            "Nodes of verified trees, roots included.")
                       .Add({});

  Family<Counter>& copies =
      Counters(registry, "bole_worker_copies_total",
               "Slots and pages that plans had copied, by kind.");
  Counter& slot_copies = copies.Add({{"kind", "slot"}});
  Counter& page_copies = copies.Add({{"kind", "page"}});
  Counter& copied_bytes = Counters(registry, "bole_worker_copied_bytes_total",
                                   "Bytes of these copies.")
                              .Add({});

  Counter& bad_logits =
      Counters(registry, "bole_worker_bad_logits_total",
               "Sequences that failed because their logits were not numbers.")
          .Add({});

  Family<Counter>& refused = Counters(
      registry, "bole_plans_refused_total",
      "Plans and streams that were refused, by reason: invalid (could "
      "not be run), malformed (ended the stream), stale_epoch, held (by "
      "another scheduler), version (of the protocol).");
  Counter& invalid = refused.Add({{"reason", "invalid"}});
  Counter& malformed = refused.Add({{"reason", "malformed"}});
  Counter& stale_epoch = refused.Add({{"reason", "stale_epoch"}});
  Counter& held = refused.Add({{"reason", "held"}});
  Counter& version = refused.Add({{"reason", "version"}});

  Gauge& epoch = Gauges(registry, "bole_worker_epoch",
                        "Epoch of the last scheduler that was let in.")
                     .Add({});
  Gauge& connected = Gauges(registry, "bole_worker_connected",
                            "1 while a scheduler's stream is open.")
                         .Add({});

  Gauge& slots =
      Gauges(registry, "bole_state_slots", "Places for recurrent states.")
          .Add({});
  Gauge& pages =
      Gauges(registry, "bole_kv_pages", "Pages for keys and values.").Add({});
  Gauge& slot_bytes = Gauges(registry, "bole_state_slot_bytes",
                             "What a place for recurrent states holds.")
                          .Add({});
  Gauge& page_bytes = Gauges(registry, "bole_kv_page_bytes",
                             "What a page for keys and values holds.")
                          .Add({});
  Gauge& page_tokens =
      Gauges(registry, "bole_kv_page_tokens", "Tokens of one page.").Add({});
  Family<Gauge>& memory =
      Gauges(registry, "bole_worker_memory_bytes",
             "Memory allocated at start, by what it is for.");
};

WorkerMetrics::WorkerMetrics() : families_(std::make_unique<Families>()) {}

WorkerMetrics::~WorkerMetrics() = default;

const std::shared_ptr<Registry>& WorkerMetrics::registry() const {
  return families_->owner;
}

std::shared_ptr<prometheus::Collectable> WorkerMetrics::Page(
    const std::string& cert_path) const {
  auto page = std::make_shared<MetricsPage>();
  page->Add(registry());
  page->Add(std::make_shared<ProcessMetrics>("worker"));
  page->Add(std::make_shared<CertificateMetrics>(
      std::vector<UsedCertificate>{{.use = "server", .path = cert_path}}));
  return page;
}

void WorkerMetrics::SetSizes(const StepLimits& limits,
                             const MemoryPlan& memory) {
  families_->slots.Set(limits.num_slots);
  families_->pages.Set(limits.num_pages);
  families_->page_tokens.Set(limits.page_size);
  families_->slot_bytes.Set(static_cast<double>(memory.slot_bytes()));
  families_->page_bytes.Set(static_cast<double>(memory.page_bytes()));
  const auto set = [this](const char* part, size_t bytes) {
    families_->memory.Add({{"part", part}}).Set(static_cast<double>(bytes));
  };
  set("weights", memory.weights);
  set("states", memory.states);
  set("kv_pages", memory.kv_pages);
  set("factors", memory.factors);
  set("logits", memory.logits);
  set("buffers", memory.buffers);
  set("scratch", memory.scratch);
  set("set_aside", memory.set_aside);
}

void WorkerMetrics::SetGraphMisses(int64_t total) {
  Counter& counter = families_->graph_misses;
  counter.Increment(
      std::max(0.0, static_cast<double>(total) - counter.Value()));
}

void WorkerMetrics::Opened(uint64_t epoch) {
  families_->epoch.Set(static_cast<double>(epoch));
  families_->connected.Set(1);
}

void WorkerMetrics::StaleEpoch() { families_->stale_epoch.Increment(); }

void WorkerMetrics::Held() { families_->held.Increment(); }

void WorkerMetrics::OtherVersion() { families_->version.Increment(); }

void WorkerMetrics::Closed() { families_->connected.Set(0); }

void WorkerMetrics::Malformed() { families_->malformed.Increment(); }

void WorkerMetrics::Stepped(const ComputeOutcome& outcome) {
  if (absl::IsInvalidArgument(outcome.result.status())) {
    families_->invalid.Increment();
    return;
  }
  if (!outcome.result.ok()) {
    families_->errors.Increment();
    return;
  }
  families_->steps.Increment();
  families_->step_seconds.Observe(outcome.step_seconds);
  families_->prefill_tokens.Increment(outcome.prefill_tokens);
  families_->nodes.Increment(outcome.nodes);
  families_->slot_copies.Increment(outcome.slot_copies);
  families_->page_copies.Increment(outcome.page_copies);
  families_->copied_bytes.Increment(
      outcome.slot_copies * families_->slot_bytes.Value() +
      outcome.page_copies * families_->page_bytes.Value());
  families_->bad_logits.Increment(NumBadLogits(*outcome.result));
}

void WorkerMetrics::Lost() { families_->errors.Increment(); }

void WorkerMetrics::Hung() { families_->hangs.Increment(); }

}  // namespace bole
