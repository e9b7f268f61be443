#include "scheduler_service/watch/metrics.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "scheduler_service/watch/cache_metrics.h"

namespace bole {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;
using Buckets = Histogram::BucketBoundaries;

// Waits of a request, in seconds.
const Buckets& WaitBuckets() {
  static const Buckets buckets = {.001, .0025, .005, .01, .025, .05, .1,
                                  .25,  .5,    1,    2.5, 5,    10,  20,
                                  40,   80,    160,  320, 640,  1280};
  return buckets;
}

// Between two tokens, in seconds: several come out of one round, so they may be
// far closer than rounds are.
const Buckets& TokenBuckets() {
  static const Buckets buckets = {.0005, .001, .002, .003, .004, .006, .008,
                                  .01,   .015, .02,  .03,  .04,  .06,  .08,
                                  .1,    .2,   .4,   .8,   1.6,  3.2,  6.4};
  return buckets;
}

// Parts of a round, in seconds.
const Buckets& RoundBuckets() {
  static const Buckets buckets = {.00002, .00005, .0001, .0002, .0005, .001,
                                  .002,   .004,   .008,  .016,  .032,  .064,
                                  .128,   .256,   .512,  1,     2,     4};
  return buckets;
}

Family<Counter>& Counters(Registry& registry, const char* name,
                          const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Counter& OneCounter(Registry& registry, const char* name, const char* help) {
  return Counters(registry, name, help).Add({});
}

Family<Gauge>& Gauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

Gauge& OneGauge(Registry& registry, const char* name, const char* help) {
  return Gauges(registry, name, help).Add({});
}

Family<Histogram>& Histograms(Registry& registry, const char* name,
                              const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

Histogram& OneHistogram(Registry& registry, const char* name, const char* help,
                        const Buckets& buckets) {
  return Histograms(registry, name, help).Add({}, buckets);
}

double ShareUsed(const PoolStatus& pool) {
  if (pool.total == 0) return 0;
  return static_cast<double>(pool.total - pool.free) / pool.total;
}

}  // namespace

// What is measured of each worker.
struct WorkerGauges {
  Gauge& up;
  Gauge& epoch;
  Gauge& kv_usage;
  Gauge& slots_used;
  Gauge& in_prefill;
  Gauge& in_decode;
  Gauge& no_table;
};

struct Metrics::Families {
  std::shared_ptr<Registry> owner = std::make_shared<Registry>();
  Registry& registry = *owner;

  Family<Counter>& requests =
      Counters(registry, "bole_requests_total",
               "Admitted requests that ended, by gRPC status code.");
  Counter& preemptions =
      OneCounter(registry, "bole_preemptions_total",
                 "Times that a request gave its place to others and waited.");
  Family<Counter>& migrations =
      Counters(registry, "bole_migrations_total",
               "Times that a request lost its place and waited for another "
               "one, by reason: lost (with its worker), evicted, preempted, "
               "drained.");
  Counter& bad_logits = OneCounter(
      registry, "bole_bad_logits_total",
      "Requests that failed because the model's logits were not numbers.");

  Histogram& queue_time = OneHistogram(
      registry, "bole_queue_time_seconds",
      "From the arrival of a request to its first round.", WaitBuckets());
  Histogram& first_token = OneHistogram(
      registry, "bole_time_to_first_token_seconds",
      "From the arrival of a request to its first token.", WaitBuckets());
  Histogram& request_latency = OneHistogram(
      registry, "bole_e2e_request_latency_seconds",
      "From the arrival of a request to its end, if it ended well.",
      WaitBuckets());
  Histogram& inter_token = OneHistogram(
      registry, "bole_inter_token_latency_seconds",
      "Time between rounds over the tokens of the round, once for each token.",
      TokenBuckets());
  Histogram& time_per_token = OneHistogram(
      registry, "bole_time_per_output_token_seconds",
      "Mean time per token after the first, once for each request that ended "
      "well.",
      TokenBuckets());

  Counter& prompt_tokens =
      OneCounter(registry, "bole_prompt_tokens_total",
                 "Tokens of the prompts that began to run.");
  Counter& prefix_queries =
      OneCounter(registry, "bole_prefix_cache_queries_tokens_total",
                 "Tokens that requests which got a place looked for there.");
  Counter& prefix_hits =
      OneCounter(registry, "bole_prefix_cache_hits_tokens_total",
                 "Those of them that were there, with a state to go on from.");
  Family<Counter>& prefix_misses =
      Counters(registry, "bole_prefix_cache_misses_total",
               "Requests that did not find more, by reason.");
  Counter& prefill_tokens =
      OneCounter(registry, "bole_prefill_tokens_total",
                 "Tokens run in prefill chunks, those run again included.");
  Counter& generation_tokens =
      OneCounter(registry, "bole_generation_tokens_total", "Output tokens.");

  Counter& spec_rounds =
      OneCounter(registry, "bole_spec_rounds_total",
                 "Verifications: one for each request and round.");
  Counter& draft_tokens = OneCounter(registry, "bole_spec_draft_tokens_total",
                                     "Drafted tokens that were verified.");
  Counter& accepted_tokens =
      OneCounter(registry, "bole_spec_accepted_tokens_total",
                 "Drafted tokens that became output.");
  Counter& verified_nodes =
      OneCounter(registry, "bole_verify_nodes_selected_total",
                 "Nodes of the forests that were verified, roots included.");
  Counter& promised_tokens = OneCounter(
      registry, "bole_spec_promised_tokens_total",
      "Drafts that would have been accepted, had the drafter been right.");
  Counter& kept_tokens =
      OneCounter(registry, "bole_spec_kept_tokens_total",
                 "Drafted tokens that were accepted in the same rounds.");
  Counter& budget = OneCounter(
      registry, "bole_verify_budget_nodes_total",
      "Nodes that planned rounds might have verified, roots included.");
  Family<Counter>& policy_rounds =
      Counters(registry, "bole_policy_rounds_total",
               "Rounds by what they draft for the next one: tree, chain, or "
               "off, and then why.");
  Histogram& predicted = OneHistogram(
      registry, "bole_policy_predicted_ratio",
      "Predicted over measured time of a planned round in the engine.",
      {.25, .5, .67, .8, .9, .95, 1, 1.05, 1.11, 1.25, 1.5, 2, 4});
  Histogram& accept_length = OneHistogram(
      registry, "bole_spec_accept_length",
      "Output tokens of one verification, the model's own included.",
      {1, 2, 3, 4, 5, 6, 7, 8, 9});

  Family<Histogram>& round_seconds = Histograms(
      registry, "bole_round_seconds",
      "Time of a round: in the worker's engine, between the services besides "
      "that, and in the scheduler since the round before.");
  Histogram& engine = round_seconds.Add({{"phase", "engine"}}, RoundBuckets());
  Histogram& wire = round_seconds.Add({{"phase", "wire"}}, RoundBuckets());
  Histogram& host = round_seconds.Add({{"phase", "host"}}, RoundBuckets());

  Gauge& running =
      OneGauge(registry, "bole_requests_running", "Requests in the batch.");
  Gauge& waiting = OneGauge(registry, "bole_requests_waiting",
                            "Requests that wait for a place in the batch.");
  Gauge& queue_tokens =
      OneGauge(registry, "bole_queue_tokens",
               "Prompt tokens of requests that have not begun to run.");
  Gauge& queue_bytes =
      OneGauge(registry, "bole_queue_bytes",
               "Message bytes of requests that have not begun to run.");
  Family<Gauge>& kv_usage =
      Gauges(registry, "bole_kv_cache_usage_ratio",
             "Share of the worker's KV pages that is held, 0 to 1.");
  Family<Gauge>& slots_used =
      Gauges(registry, "bole_state_slots_used",
             "State slots of the worker that are held.");
  Family<Gauge>& worker_requests =
      Gauges(registry, "bole_worker_requests",
             "Requests that run on the worker, by stage: prefill or decode.");
  Family<Gauge>& worker_up = Gauges(registry, "bole_worker_up",
                                    "1 while the worker is connected, else 0.");
  Family<Gauge>& worker_epoch =
      Gauges(registry, "bole_worker_epoch",
             "Epoch of the last connection to the worker.");
  Family<Gauge>& policy_fallback =
      Gauges(registry, "bole_policy_fallback",
             "1 while the policy does less for the worker than it was asked "
             "to, by reason: no_table (it has no table of costs).");
  CacheMetrics caches{registry};
  std::map<std::string, WorkerGauges> workers;  // By their names.

  WorkerGauges& Of(const std::string& worker);
  void RemoveAllBut(const std::vector<WorkerStatus>& wanted);
};

WorkerGauges& Metrics::Families::Of(const std::string& worker) {
  const auto at = workers.find(worker);
  if (at != workers.end()) return at->second;
  const prometheus::Labels labels = {{"worker", worker}};
  return workers
      .emplace(worker,
               WorkerGauges{.up = worker_up.Add(labels),
                            .epoch = worker_epoch.Add(labels),
                            .kv_usage = kv_usage.Add(labels),
                            .slots_used = slots_used.Add(labels),
                            .in_prefill = worker_requests.Add(
                                {{"worker", worker}, {"stage", "prefill"}}),
                            .in_decode = worker_requests.Add(
                                {{"worker", worker}, {"stage", "decode"}}),
                            .no_table = policy_fallback.Add(
                                {{"worker", worker}, {"reason", "no_table"}})})
      .first->second;
}

void Metrics::Families::RemoveAllBut(const std::vector<WorkerStatus>& wanted) {
  std::erase_if(workers, [&](auto& named) {
    const std::string& name = named.first;
    const bool there = std::any_of(
        wanted.begin(), wanted.end(),
        [&](const WorkerStatus& worker) { return worker.name == name; });
    if (there) return false;
    const WorkerGauges& gauges = named.second;
    worker_up.Remove(&gauges.up);
    worker_epoch.Remove(&gauges.epoch);
    kv_usage.Remove(&gauges.kv_usage);
    slots_used.Remove(&gauges.slots_used);
    worker_requests.Remove(&gauges.in_prefill);
    worker_requests.Remove(&gauges.in_decode);
    policy_fallback.Remove(&gauges.no_table);
    caches.Remove(name);
    return true;
  });
}

Metrics::Metrics() : families_(std::make_unique<Families>()) {
  // A rate needs its zero before the first event.
  for (const char* code : {"OK", "CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL",
                           "INVALID_ARGUMENT", "UNAVAILABLE"}) {
    families_->requests.Add({{"code", code}});
  }
  for (const char* choice : {"chain", "tree"}) {
    families_->policy_rounds.Add({{"choice", choice}, {"reason", ""}});
  }
  for (const OffReason reason :
       {OffReason::kAsked, OffReason::kNoDrafter, OffReason::kNotFaster}) {
    families_->policy_rounds.Add(
        {{"choice", "off"}, {"reason", NameOf(reason)}});
  }
  for (const char* reason : {"cold", "below_granularity", "evicted",
                             "no_checkpoint", "salt", "other_worker"}) {
    families_->prefix_misses.Add({{"reason", reason}});
  }
  for (const char* reason : {"lost", "evicted", "preempted", "drained"}) {
    families_->migrations.Add({{"reason", reason}});
  }
}

Metrics::~Metrics() = default;

const std::shared_ptr<Registry>& Metrics::registry() const {
  return families_->owner;
}

void Metrics::Queued(double seconds) { families_->queue_time.Observe(seconds); }

void Metrics::FirstToken(double seconds) {
  families_->first_token.Observe(seconds);
}

void Metrics::InterToken(double seconds, int tokens) {
  for (int i = 0; i < tokens; ++i) {
    families_->inter_token.Observe(seconds / tokens);
  }
}

void Metrics::Ended(const absl::Status& status, double total_seconds,
                    double first_token_seconds, int output_tokens) {
  const std::string code = absl::StatusCodeToString(status.code());
  families_->requests.Add({{"code", code}}).Increment();
  if (!status.ok()) return;
  families_->request_latency.Observe(total_seconds);
  if (output_tokens < 2) return;
  families_->time_per_token.Observe((total_seconds - first_token_seconds) /
                                    (output_tokens - 1));
}

void Metrics::PromptTokens(int tokens) {
  families_->prompt_tokens.Increment(tokens);
}

void Metrics::Prefix(const PrefixUse& use) {
  families_->prefix_queries.Increment(use.tokens);
  families_->prefix_hits.Increment(use.cached);
  if (use.miss_reason.empty()) return;
  families_->prefix_misses.Add({{"reason", use.miss_reason}}).Increment();
}

void Metrics::Accepted(int emitted, int accepted_drafts) {
  families_->spec_rounds.Increment();
  families_->accept_length.Observe(emitted);
  families_->accepted_tokens.Increment(accepted_drafts);
}

void Metrics::Round(const RoundMetrics& round) {
  families_->draft_tokens.Increment(round.draft_nodes);
  families_->verified_nodes.Increment(round.nodes);
  families_->promised_tokens.Increment(round.promised_drafts);
  families_->kept_tokens.Increment(round.kept_drafts);
  families_->budget.Increment(round.budget);
  const bool is_tree = round.draft && round.draft->top_k > 1;
  families_->policy_rounds
      .Add({{"choice", !round.draft ? "off"
                       : is_tree    ? "tree"
                                    : "chain"},
            {"reason", NameOf(round.off_reason)}})
      .Increment();
  if (round.predicted_seconds > 0 && round.step_seconds > 0) {
    families_->predicted.Observe(round.predicted_seconds / round.step_seconds);
  }
  families_->prefill_tokens.Increment(round.prefill_tokens);
  families_->generation_tokens.Increment(round.emitted_tokens);
  families_->engine.Observe(round.step_seconds);
  families_->wire.Observe(
      std::max(0.0, round.round_seconds - round.step_seconds));
  // Zero: no round came right before.
  if (round.host_seconds > 0) families_->host.Observe(round.host_seconds);
}

void Metrics::Preempted() { families_->preemptions.Increment(); }

void Metrics::Migrated(const std::string& reason) {
  families_->migrations.Add({{"reason", reason}}).Increment();
}

void Metrics::BadLogits() { families_->bad_logits.Increment(); }

void Metrics::SetLoad(const SchedulerStatus& status,
                      const AdmissionLoad& waiting) {
  families_->running.Set(status.running);
  families_->waiting.Set(status.waiting);
  families_->queue_tokens.Set(static_cast<double>(waiting.tokens));
  families_->queue_bytes.Set(static_cast<double>(waiting.bytes));
  for (const WorkerStatus& worker : status.workers) {
    const WorkerGauges& gauges = families_->Of(worker.name);
    gauges.up.Set(worker.connected ? 1 : 0);
    gauges.epoch.Set(static_cast<double>(worker.epoch));
    gauges.kv_usage.Set(ShareUsed(worker.pages));
    gauges.slots_used.Set(worker.slots.total - worker.slots.free);
    gauges.in_prefill.Set(worker.in_prefill);
    gauges.in_decode.Set(worker.running - worker.in_prefill);
    families_->caches.Set(worker);
    gauges.no_table.Set(worker.policy_fallback == "no_table" ? 1 : 0);
  }
  if (families_->workers.size() > status.workers.size()) {
    families_->RemoveAllBut(status.workers);
  }
}

}  // namespace bole
