#include "scheduler_service/metrics.h"

#include <algorithm>
#include <string>

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

Gauge& OneGauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(
      {});
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

struct Metrics::Families {
  std::shared_ptr<Registry> owner = std::make_shared<Registry>();
  Registry& registry = *owner;

  Family<Counter>& requests =
      Counters(registry, "bole_requests_total",
               "Admitted requests that ended, by gRPC status code.");
  Counter& preemptions =
      OneCounter(registry, "bole_preemptions_total",
                 "Requests that gave their pages back and wait to run again.");
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
  Counter& prefill_tokens = OneCounter(
      registry, "bole_prefill_tokens_total",
      "Tokens run in prefill chunks, those run again after a preemption "
      "included.");
  Counter& generation_tokens =
      OneCounter(registry, "bole_generation_tokens_total", "Output tokens.");

  Counter& spec_rounds = OneCounter(
      registry, "bole_spec_rounds_total",
      "Verifications: one for each request and round. Mean accepted tokens are "
      "1 + bole_spec_accepted_tokens_total / bole_spec_rounds_total.");
  Counter& draft_tokens = OneCounter(registry, "bole_spec_draft_tokens_total",
                                     "Drafted tokens that were verified.");
  Counter& accepted_tokens =
      OneCounter(registry, "bole_spec_accepted_tokens_total",
                 "Drafted tokens that became output.");
  Counter& verified_nodes =
      OneCounter(registry, "bole_verify_nodes_selected_total",
                 "Nodes of the forests that were verified, roots included.");
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
  Gauge& kv_usage = OneGauge(registry, "bole_kv_cache_usage_ratio",
                             "Share of the KV pages that is held, 0 to 1.");
  Gauge& slots_used =
      OneGauge(registry, "bole_state_slots_used", "State slots that are held.");
  Gauge& worker_up = OneGauge(registry, "bole_worker_up",
                              "1 while a worker is connected, else 0.");
  Gauge& worker_epoch = OneGauge(registry, "bole_worker_epoch",
                                 "Epoch of the last connection to a worker.");
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {
  // A rate needs its zero before the first event.
  for (const char* code : {"OK", "CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL",
                           "INVALID_ARGUMENT", "UNAVAILABLE"}) {
    families_->requests.Add({{"code", code}});
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

void Metrics::Accepted(int emitted, int accepted_drafts) {
  families_->spec_rounds.Increment();
  families_->accept_length.Observe(emitted);
  families_->accepted_tokens.Increment(accepted_drafts);
}

void Metrics::Round(const RoundMetrics& round) {
  families_->draft_tokens.Increment(round.draft_nodes);
  families_->verified_nodes.Increment(round.nodes);
  families_->prefill_tokens.Increment(round.prefill_tokens);
  families_->generation_tokens.Increment(round.emitted_tokens);
  families_->engine.Observe(round.step_seconds);
  families_->wire.Observe(
      std::max(0.0, round.round_seconds - round.step_seconds));
  // Zero: no round came right before.
  if (round.host_seconds > 0) families_->host.Observe(round.host_seconds);
}

void Metrics::Preempted() { families_->preemptions.Increment(); }

void Metrics::BadLogits() { families_->bad_logits.Increment(); }

void Metrics::SetLoad(const SchedulerStatus& status,
                      const AdmissionLoad& waiting) {
  families_->running.Set(status.running);
  families_->waiting.Set(status.waiting);
  families_->queue_tokens.Set(static_cast<double>(waiting.tokens));
  families_->queue_bytes.Set(static_cast<double>(waiting.bytes));
  families_->kv_usage.Set(ShareUsed(status.pages));
  families_->slots_used.Set(status.slots.total - status.slots.free);
  families_->worker_up.Set(status.connected ? 1 : 0);
  families_->worker_epoch.Set(static_cast<double>(status.epoch));
}

}  // namespace bole
