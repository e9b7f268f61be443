#include "scheduler_service/watch/model_series.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/net/metric_families.h"
#include "scheduler_service/watch/buckets.h"

namespace bole {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

struct ModelSeries::Series {
  Series(Registry& to, std::string of) : registry(to), model(std::move(of)) {}

  prometheus::Labels Labels(const prometheus::Labels& more = {}) const {
    prometheus::Labels labels = more;
    labels["model"] = model;
    return labels;
  }
  Counter& One(const char* name, const char* help) const {
    return Counters(registry, name, help).Add(Labels());
  }
  Histogram& One(const char* name, const char* help,
                 const Histogram::BucketBoundaries& buckets) const {
    return Histograms(registry, name, help).Add(Labels(), buckets);
  }

  Registry& registry;
  const std::string model;

  Family<Counter>& requests =
      Counters(registry, "bole_requests_total",
               "Admitted requests that ended, by model and gRPC status code.");
  Family<Counter>& finished =
      Counters(registry, "bole_finished_requests_total",
               "Requests that ended well, by model and reason: stop (a stop "
               "token or text), length.");
  Counter& stopped = finished.Add(Labels({{"reason", "stop"}}));
  Counter& full = finished.Add(Labels({{"reason", "length"}}));

  Histogram& queue_time =
      One("bole_queue_time_seconds",
          "From the arrival of a request to its first round.", WaitBuckets());
  Histogram& first_token =
      One("bole_time_to_first_token_seconds",
          "From the arrival of a request to its first token.", WaitBuckets());
  Histogram& request_latency =
      One("bole_e2e_request_latency_seconds",
          "From the arrival of a request to its end, if it ended well.",
          WaitBuckets());
  Histogram& inter_token = One(
      "bole_inter_token_latency_seconds",
      "Time between rounds over the tokens of the round, once for each token.",
      TokenTimeBuckets());
  Histogram& time_per_token =
      One("bole_time_per_output_token_seconds",
          "Mean time per token after the first, once for each request that "
          "ended well.",
          TokenTimeBuckets());
  Histogram& request_prompt =
      One("bole_request_prompt_tokens",
          "Prompt tokens of a request, once for each that ended well.",
          LengthBuckets());
  Histogram& request_output =
      One("bole_request_generation_tokens",
          "Output tokens of a request, once for each that ended well.",
          LengthBuckets());

  Counter& prompt_tokens = One("bole_prompt_tokens_total",
                               "Tokens of the prompts that began to run.");
  Counter& prefix_queries =
      One("bole_prefix_cache_queries_tokens_total",
          "Tokens that requests which got a place looked for there.");
  Counter& prefix_hits =
      One("bole_prefix_cache_hits_tokens_total",
          "Those of them that were there, with a state to go on from.");
  Family<Counter>& prefix_misses =
      Counters(registry, "bole_prefix_cache_misses_total",
               "Requests that did not find more, by model and reason.");
  Counter& prefill_tokens =
      One("bole_prefill_tokens_total",
          "Tokens run in prefill chunks, those run again included.");
  Counter& generation_tokens =
      One("bole_generation_tokens_total", "Output tokens.");

  Counter& spec_rounds = One("bole_spec_rounds_total",
                             "Verifications: one for each request and round.");
  Counter& draft_tokens =
      One("bole_spec_draft_tokens_total", "Drafted tokens that were verified.");
  Counter& accepted_tokens = One("bole_spec_accepted_tokens_total",
                                 "Drafted tokens that became output.");
  Family<Counter>& verified_at = Counters(
      registry, "bole_spec_verified_trees_per_depth_total",
      "Verified trees that had a node at a depth, 1 being the first draft.");
  Family<Counter>& accepted_at =
      Counters(registry, "bole_spec_accepted_tokens_per_depth_total",
               "Drafted tokens that became output, by model and depth.");
  Counter& verified_nodes =
      One("bole_verify_nodes_selected_total",
          "Nodes of the forests that were verified, roots included.");
  Counter& promised_tokens =
      One("bole_spec_promised_tokens_total",
          "Drafts that would have been accepted, had the drafter been right.");
  Counter& kept_tokens =
      One("bole_spec_kept_tokens_total",
          "Drafted tokens that were accepted in the same rounds.");
  Counter& budget =
      One("bole_verify_budget_nodes_total",
          "Nodes that rounds might have verified, roots included.");
  Family<Counter>& policy_rounds =
      Counters(registry, "bole_policy_rounds_total",
               "Rounds by model and by what they draft for the next one: tree, "
               "chain, or off, and then why.");
  Histogram& predicted =
      One("bole_policy_predicted_ratio",
          "Predicted over measured time of a planned round in the engine.",
          {.25, .5, .67, .8, .9, .95, 1, 1.05, 1.11, 1.25, 1.5, 2, 4});
  Histogram& accept_length =
      One("bole_spec_accept_length",
          "Output tokens of one verification, the model's own included.",
          {1, 2, 3, 4, 5, 6, 7, 8, 9});

  Family<Histogram>& round_seconds = Histograms(
      registry, "bole_round_seconds",
      "Time of a round: in the worker's engine, between the services besides "
      "that, and in the scheduler since the round before.");
  Histogram& engine =
      round_seconds.Add(Labels({{"phase", "engine"}}), RoundBuckets());
  Histogram& wire =
      round_seconds.Add(Labels({{"phase", "wire"}}), RoundBuckets());
  Histogram& host =
      round_seconds.Add(Labels({{"phase", "host"}}), RoundBuckets());

  Gauge& running =
      Gauges(registry, "bole_requests_running", "Requests in the batch.")
          .Add(Labels());
  Gauge& waiting = Gauges(registry, "bole_requests_waiting",
                          "Requests that wait for a place in the batch.")
                       .Add(Labels());

  // By depth, the first being 1.
  std::array<Counter*, kMaxDraftDepth> verified_depths;
  std::array<Counter*, kMaxDraftDepth> accepted_depths;

  // To compute rates, the series must be 0 before the first event.
  void Begin();
};

void ModelSeries::Series::Begin() {
  for (int i = 0; i < kMaxDraftDepth; ++i) {
    const auto labels = Labels({{"depth", absl::StrCat(i + 1)}});
    verified_depths[i] = &verified_at.Add(labels);
    accepted_depths[i] = &accepted_at.Add(labels);
  }
  for (const char* code : {"OK", "CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL",
                           "INVALID_ARGUMENT", "UNAVAILABLE"}) {
    requests.Add(Labels({{"code", code}}));
  }
  for (const char* choice : {"chain", "tree"}) {
    policy_rounds.Add(Labels({{"choice", choice}, {"reason", ""}}));
  }
  for (const OffReason reason :
       {OffReason::kAsked, OffReason::kNoDrafter, OffReason::kNotFaster}) {
    policy_rounds.Add(Labels({{"choice", "off"}, {"reason", NameOf(reason)}}));
  }
  for (const char* reason : {"cold", "below_granularity", "evicted",
                             "no_checkpoint", "salt", "other_worker"}) {
    prefix_misses.Add(Labels({{"reason", reason}}));
  }
}

ModelSeries::ModelSeries(std::unique_ptr<Series> series)
    : series_(std::move(series)) {
  series_->Begin();
}

ModelSeries::~ModelSeries() = default;

void ModelSeries::Queued(double seconds) {
  series_->queue_time.Observe(seconds);
}

void ModelSeries::FirstToken(double seconds) {
  series_->first_token.Observe(seconds);
}

void ModelSeries::InterToken(double seconds, int tokens) {
  for (int i = 0; i < tokens; ++i) {
    series_->inter_token.Observe(seconds / tokens);
  }
}

void ModelSeries::Ended(const EndedRequest& request) {
  const std::string code = absl::StatusCodeToString(request.status.code());
  series_->requests.Add(series_->Labels({{"code", code}})).Increment();
  if (!request.status.ok()) return;
  (request.was_stopped ? series_->stopped : series_->full).Increment();
  series_->request_latency.Observe(request.total_seconds);
  series_->request_prompt.Observe(request.prompt_tokens);
  series_->request_output.Observe(request.output_tokens);
  if (request.output_tokens < 2) return;
  series_->time_per_token.Observe(
      (request.total_seconds - request.first_token_seconds) /
      (request.output_tokens - 1));
}

void ModelSeries::PromptTokens(int tokens) {
  series_->prompt_tokens.Increment(tokens);
}

void ModelSeries::Prefix(const PrefixUse& use) {
  series_->prefix_queries.Increment(use.tokens);
  series_->prefix_hits.Increment(use.cached);
  if (use.miss_reason.empty()) return;
  series_->prefix_misses.Add(series_->Labels({{"reason", use.miss_reason}}))
      .Increment();
}

void ModelSeries::Accepted(int emitted, int accepted_drafts) {
  series_->spec_rounds.Increment();
  series_->accept_length.Observe(emitted);
  series_->accepted_tokens.Increment(accepted_drafts);
}

void ModelSeries::Round(const RoundMetrics& round) {
  series_->draft_tokens.Increment(round.draft_nodes);
  series_->verified_nodes.Increment(round.nodes);
  series_->promised_tokens.Increment(round.promised_drafts);
  series_->kept_tokens.Increment(round.kept_drafts);
  // A tree with a node at a depth has one at each smaller depth.
  for (size_t i = 0; i < round.verified_at.size(); ++i) {
    if (round.verified_at[i] == 0) break;
    series_->verified_depths[i]->Increment(round.verified_at[i]);
    series_->accepted_depths[i]->Increment(round.accepted_at[i]);
  }
  series_->budget.Increment(round.budget);
  const bool is_tree = round.draft && round.draft->top_k > 1;
  series_->policy_rounds
      .Add(series_->Labels({{"choice", !round.draft ? "off"
                                       : is_tree    ? "tree"
                                                    : "chain"},
                            {"reason", NameOf(round.off_reason)}}))
      .Increment();
  if (round.predicted_seconds > 0 && round.step_seconds > 0) {
    series_->predicted.Observe(round.predicted_seconds / round.step_seconds);
  }
  series_->prefill_tokens.Increment(round.prefill_tokens);
  series_->generation_tokens.Increment(round.emitted_tokens);
  series_->engine.Observe(round.step_seconds);
  series_->wire.Observe(
      std::max(0.0, round.round_seconds - round.step_seconds));
  // 0: no round came directly before.
  if (round.host_seconds > 0) series_->host.Observe(round.host_seconds);
}

void ModelSeries::SetLoad(int running, int waiting) {
  series_->running.Set(running);
  series_->waiting.Set(waiting);
}

ModelFamilies::ModelFamilies(Registry& registry) : registry_(registry) {}

ModelFamilies::~ModelFamilies() = default;

ModelSeries& ModelFamilies::Of(const std::string& model) {
  MutexLock lock(mutex_);
  std::unique_ptr<ModelSeries>& series = models_[model];
  if (series == nullptr) {
    series.reset(new ModelSeries(
        std::make_unique<ModelSeries::Series>(registry_, model)));
  }
  return *series;
}

}  // namespace bole
