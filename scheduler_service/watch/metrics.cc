#include "scheduler_service/watch/metrics.h"

#include "common/net/metric_families.h"
#include "scheduler_service/watch/tenant_metrics.h"
#include "scheduler_service/watch/worker_gauges.h"

namespace bole {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Registry;

struct Metrics::Families {
  std::shared_ptr<Registry> owner = std::make_shared<Registry>();
  Registry& registry = *owner;

  ModelFamilies models{registry};
  TenantMetrics tenants{registry};
  WorkerGauges workers{registry};

  Counter& preemptions =
      Counters(registry, "bole_preemptions_total",
               "Times that a request gave its place to others and waited.")
          .Add({});
  Family<Counter>& migrations =
      Counters(registry, "bole_migrations_total",
               "Times that a request lost its place and waited for another "
               "one, by reason: lost (with its worker), evicted, preempted, "
               "drained.");
  Counter& bad_logits =
      Counters(registry, "bole_bad_logits_total",
               "Requests that failed because the model's logits were not "
               "numbers.")
          .Add({});
  Gauge& queue_tokens =
      Gauges(registry, "bole_queue_tokens",
             "Prompt tokens of requests that have not begun to run.")
          .Add({});
  Gauge& queue_bytes =
      Gauges(registry, "bole_queue_bytes",
             "Message bytes of requests that have not begun to run.")
          .Add({});
  Gauge& audit_problems =
      Gauges(registry, "bole_audit_problems",
             "1 while the scheduler's books are not in order, which is a "
             "fault of the program.")
          .Add({});
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {
  // To compute a rate, the series must be 0 before the first event.
  for (const char* reason : {"lost", "evicted", "preempted", "drained"}) {
    families_->migrations.Add({{"reason", reason}});
  }
}

Metrics::~Metrics() = default;

const std::shared_ptr<Registry>& Metrics::registry() const {
  return families_->owner;
}

ModelSeries& Metrics::Of(const std::string& model) {
  return families_->models.Of(model);
}

void Metrics::Ended(const EndedRequest& request) {
  Of(request.model).Ended(request);
  families_->tenants.Ended(request);
}

void Metrics::Preempted() { families_->preemptions.Increment(); }

void Metrics::Migrated(const std::string& reason) {
  families_->migrations.Add({{"reason", reason}}).Increment();
}

void Metrics::BadLogits() { families_->bad_logits.Increment(); }

void Metrics::SetLoad(const SchedulerStatus& status,
                      const AdmissionLoad& waiting) {
  families_->queue_tokens.Set(static_cast<double>(waiting.tokens));
  families_->queue_bytes.Set(static_cast<double>(waiting.bytes));
  families_->audit_problems.Set(status.audit.empty() ? 0 : 1);
  for (const ModelStatus& model : status.models) {
    Of(model.name).SetLoad(model.running, model.waiting);
  }
  families_->workers.Set(status.workers);
}

}  // namespace bole
