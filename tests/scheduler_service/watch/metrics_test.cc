#include "scheduler_service/watch/metrics.h"

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/watch/scheduler_status.h"
#include "scheduler_service/watch/tenant_metrics.h"
#include "tests/scheduler_service/scrape.h"

namespace bole {
namespace {

std::map<std::string, double> Scrape(const Metrics& metrics) {
  return testing::Scrape(*metrics.registry());
}

TEST(MetricsTest, CodesStartAtZero) {
  Metrics metrics;
  metrics.Of("m");

  auto series = Scrape(metrics);

  EXPECT_EQ(series.at("bole_requests_total{code=\"OK\",model=\"m\"}"), 0);
  EXPECT_EQ(series.at("bole_requests_total{code=\"CANCELLED\",model=\"m\"}"),
            0);
}

TEST(MetricsTest, InterTokenLatencyIsWeightedByTokens) {
  Metrics metrics;

  metrics.Of("m").InterToken(0.06, 6);
  metrics.Of("m").InterToken(0.03, 1);

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_inter_token_latency_seconds_count"), 7);
  EXPECT_NEAR(series.at("bole_inter_token_latency_seconds_sum"), 0.09, 1e-12);
  EXPECT_EQ(series.at("bole_inter_token_latency_seconds_bucket{le=\"0.015\"}"),
            6);
}

TEST(MetricsTest, TimePerOutputTokenLeavesOutTheFirst) {
  Metrics metrics;

  metrics.Ended({.model = "m",
                 .total_seconds = 1.5,
                 .first_token_seconds = 0.5,
                 .output_tokens = 11});
  metrics.Ended({.model = "m",
                 .total_seconds = 2,
                 .first_token_seconds = 2,
                 .output_tokens = 1});

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_time_per_output_token_seconds_count"), 1);
  EXPECT_NEAR(series.at("bole_time_per_output_token_seconds_sum"), 0.1, 1e-12);
  EXPECT_EQ(series.at("bole_e2e_request_latency_seconds_count"), 2);
  EXPECT_NEAR(series.at("bole_e2e_request_latency_seconds_sum"), 3.5, 1e-12);
}

TEST(MetricsTest, RequestsThatFailedAreCountedByCodeAndNotTimed) {
  Metrics metrics;

  const EndedRequest gone{.model = "m",
                          .status = absl::CancelledError("gone"),
                          .total_seconds = 100,
                          .first_token_seconds = 1,
                          .output_tokens = 50};
  metrics.Ended(gone);
  metrics.Ended(gone);
  metrics.Ended({.model = "m", .total_seconds = 1, .output_tokens = 1});

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_requests_total{code=\"CANCELLED\"}"), 2);
  EXPECT_EQ(series.at("bole_requests_total{code=\"OK\"}"), 1);
  EXPECT_EQ(series.at("bole_e2e_request_latency_seconds_count"), 1);
}

TEST(MetricsTest, ARoundIsSplitIntoEngineWireAndHost) {
  Metrics metrics;

  metrics.Of("m").Round({.sequences = 2,
                         .nodes = 20,
                         .draft_nodes = 18,
                         .accepted_drafts = 5,
                         .prefill_tokens = 64,
                         .emitted_tokens = 8,
                         .round_seconds = 0.010,
                         .step_seconds = 0.007,
                         .host_seconds = 0.0001});

  auto series = Scrape(metrics);
  EXPECT_NEAR(series.at("bole_round_seconds_sum{phase=\"engine\"}"), 0.007,
              1e-12);
  EXPECT_NEAR(series.at("bole_round_seconds_sum{phase=\"wire\"}"), 0.003,
              1e-12);
  EXPECT_NEAR(series.at("bole_round_seconds_sum{phase=\"host\"}"), 0.0001,
              1e-12);
  EXPECT_EQ(series.at("bole_spec_draft_tokens_total"), 18);
  EXPECT_EQ(series.at("bole_verify_nodes_selected_total"), 20);
  EXPECT_EQ(series.at("bole_prefill_tokens_total"), 64);
  EXPECT_EQ(series.at("bole_generation_tokens_total"), 8);
}

TEST(MetricsTest, MeanAcceptedTokensCanBeComputed) {
  Metrics metrics;

  metrics.Of("m").Accepted(/*emitted=*/4, /*accepted_drafts=*/3);
  metrics.Of("m").Accepted(/*emitted=*/1, /*accepted_drafts=*/0);

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_spec_rounds_total"), 2);
  EXPECT_EQ(series.at("bole_spec_accepted_tokens_total"), 3);
  EXPECT_EQ(series.at("bole_spec_accept_length_sum"), 5);
  EXPECT_EQ(series.at("bole_spec_accept_length_bucket{le=\"1\"}"), 1);
}

TEST(MetricsTest, TheLoadIsASnapshot) {
  Metrics metrics;
  SchedulerStatus status;
  status.models = {{.name = "m", .running = 3, .waiting = 2}};
  status.workers = {{.name = "a:1",
                     .connected = true,
                     .epoch = 1'700'000'000'000'001,
                     .running = 3,
                     .in_prefill = 1,
                     .slots = {.total = 8, .free = 5},
                     .pages = {.total = 100, .free = 75, .cached = 5}},
                    {.name = "b:2"}};

  metrics.SetLoad(status, {.requests = 2, .tokens = 70, .bytes = 900});
  auto series = Scrape(metrics);

  EXPECT_EQ(series.at("bole_requests_running{model=\"m\"}"), 3);
  EXPECT_EQ(series.at("bole_requests_waiting{model=\"m\"}"), 2);
  EXPECT_EQ(series.at("bole_worker_pages{state=\"held\",worker=\"a:1\"}"), 25);
  EXPECT_EQ(series.at("bole_worker_pages{state=\"cached\",worker=\"a:1\"}"), 5);
  EXPECT_EQ(series.at("bole_worker_pages{state=\"free\",worker=\"a:1\"}"), 70);
  EXPECT_EQ(series.at("bole_worker_slots{state=\"held\",worker=\"a:1\"}"), 3);
  EXPECT_EQ(series.at("bole_queue_tokens"), 70);
  EXPECT_EQ(series.at("bole_queue_bytes"), 900);
  EXPECT_EQ(series.at("bole_state_slots_used{worker=\"a:1\"}"), 3);
  EXPECT_EQ(series.at("bole_kv_cache_usage_ratio{worker=\"a:1\"}"), 0.25);
  EXPECT_EQ(series.at("bole_worker_requests{stage=\"prefill\",worker=\"a:1\"}"),
            1);
  EXPECT_EQ(series.at("bole_worker_requests{stage=\"decode\",worker=\"a:1\"}"),
            2);
  EXPECT_EQ(series.at("bole_worker_up{worker=\"a:1\"}"), 1);
  EXPECT_EQ(series.at("bole_worker_up{worker=\"b:2\"}"), 0);
  EXPECT_EQ(series.at("bole_worker_epoch{worker=\"a:1\"}"),
            1'700'000'000'000'001);

  status.workers[0] = {.name = "a:1"};
  metrics.SetLoad(status, AdmissionLoad());
  series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_worker_up{worker=\"a:1\"}"), 0);
  EXPECT_EQ(series.at("bole_kv_cache_usage_ratio{worker=\"a:1\"}"), 0);
}

TEST(MetricsTest, AWorkerThatWasLetGoHasNoSeriesAnyMore) {
  Metrics metrics;
  SchedulerStatus status;
  status.workers = {{.name = "a:1"}, {.name = "b:2"}};
  metrics.SetLoad(status, AdmissionLoad());

  status.workers.erase(status.workers.begin());
  metrics.SetLoad(status, AdmissionLoad());

  const auto series = Scrape(metrics);
  EXPECT_FALSE(series.contains("bole_worker_up{worker=\"a:1\"}"));
  EXPECT_TRUE(series.contains("bole_worker_up{worker=\"b:2\"}"));
}

TEST(MetricsTest, AWorkerTellsTheModelThatItServesNow) {
  Metrics metrics;
  const auto description = std::make_shared<WorkerDescription>();
  description->device = "d";
  description->version = "1";
  SchedulerStatus status;
  status.workers = {{.name = "a:1", .description = description, .model = "m"}};
  metrics.SetLoad(status, AdmissionLoad());
  const std::string of_a =
      "bole_worker_info{device=\"d\",model=\"m\",version=\"1\",worker=\"a:1\"}";
  EXPECT_EQ(Scrape(metrics).at(of_a), 1);

  status.workers[0].model = "n";
  metrics.SetLoad(status, AdmissionLoad());

  const auto series = Scrape(metrics);
  EXPECT_FALSE(series.contains(of_a));
  EXPECT_TRUE(
      series.contains("bole_worker_info{device=\"d\",model=\"n\",version=\"1\","
                      "worker=\"a:1\"}"));
}

TEST(MetricsTest, ModelsAreCountedApart) {
  Metrics metrics;

  metrics.Of("m").PromptTokens(3);
  metrics.Of("n").PromptTokens(4);

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_prompt_tokens_total{model=\"m\"}"), 3);
  EXPECT_EQ(series.at("bole_prompt_tokens_total{model=\"n\"}"), 4);
}

TEST(MetricsTest, FinishedRequestsAreCountedByReasonAndLength) {
  Metrics metrics;

  metrics.Ended({.model = "m",
                 .was_stopped = true,
                 .prompt_tokens = 7,
                 .output_tokens = 3});
  metrics.Ended({.model = "m", .prompt_tokens = 9, .output_tokens = 4});

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_finished_requests_total{reason=\"stop\"}"), 1);
  EXPECT_EQ(series.at("bole_finished_requests_total{reason=\"length\"}"), 1);
  EXPECT_EQ(series.at("bole_request_prompt_tokens_sum"), 16);
  EXPECT_EQ(series.at("bole_request_generation_tokens_sum"), 7);
}

TEST(MetricsTest, AcceptanceIsCountedByDepth) {
  Metrics metrics;

  metrics.Of("m").Round({.verified_at = {3, 2}, .accepted_at = {2, 1}});
  metrics.Of("m").Round({.verified_at = {1}, .accepted_at = {1}});

  auto series = Scrape(metrics);
  const std::string verified = "bole_spec_verified_trees_per_depth_total";
  const std::string accepted = "bole_spec_accepted_tokens_per_depth_total";
  EXPECT_EQ(series.at(verified + "{depth=\"1\"}"), 4);
  EXPECT_EQ(series.at(verified + "{depth=\"2\"}"), 2);
  EXPECT_EQ(series.at(verified + "{depth=\"3\"}"), 0);
  EXPECT_EQ(series.at(accepted + "{depth=\"1\"}"), 3);
  EXPECT_EQ(series.at(accepted + "{depth=\"2\"}"), 1);
}

TEST(MetricsTest, OnlyTheFirstTenantsHaveNames) {
  Metrics metrics;
  metrics.Ended({.model = "m", .output_tokens = 2});
  for (size_t i = 0; i < TenantMetrics::kMaxTenants + 2; ++i) {
    metrics.Ended({.model = "m",
                   .tenant = "t" + std::to_string(i),
                   .prompt_tokens = 5,
                   .output_tokens = 1});
  }
  metrics.Ended({.model = "m", .tenant = "t0", .output_tokens = 1});

  auto series = Scrape(metrics);
  const std::string requests = "bole_tenant_requests_total{code=\"OK\",tenant=";
  EXPECT_EQ(series.at(requests + "\"none\"}"), 1);
  EXPECT_EQ(series.at(requests + "\"t0\"}"), 2);
  EXPECT_EQ(series.at(requests + "\"t99\"}"), 1);
  EXPECT_FALSE(series.contains(requests + "\"t100\"}"));
  EXPECT_EQ(series.at(requests + "\"other\"}"), 2);
  EXPECT_EQ(
      series.at("bole_tenant_tokens_total{kind=\"prompt\",tenant=\"other\"}"),
      10);
}

TEST(MetricsTest, MigrationsAreCountedByReason) {
  Metrics metrics;

  metrics.Migrated("lost");
  metrics.Migrated("lost");
  metrics.Migrated("evicted");

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_migrations_total{reason=\"lost\"}"), 2);
  EXPECT_EQ(series.at("bole_migrations_total{reason=\"evicted\"}"), 1);
  EXPECT_EQ(series.at("bole_migrations_total{reason=\"drained\"}"), 0);
}

TEST(MetricsTest, QueueTimeFirstTokenPromptsAndPreemptionsAreRecorded) {
  Metrics metrics;

  metrics.Of("m").Queued(0.25);
  metrics.Of("m").FirstToken(0.5);
  metrics.Of("m").PromptTokens(17);
  metrics.Preempted();

  auto series = Scrape(metrics);
  EXPECT_EQ(series.at("bole_queue_time_seconds_sum"), 0.25);
  EXPECT_EQ(series.at("bole_time_to_first_token_seconds_sum"), 0.5);
  EXPECT_EQ(series.at("bole_prompt_tokens_total"), 17);
  EXPECT_EQ(series.at("bole_preemptions_total"), 1);
}

}  // namespace
}  // namespace bole
