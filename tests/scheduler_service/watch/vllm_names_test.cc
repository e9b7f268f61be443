#include "scheduler_service/watch/vllm_names.h"

#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/watch/metrics.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {
namespace {

std::string PageOf(const Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(
      VllmNames(metrics.registry()).Collect());
}

bool Has(const std::string& page, const std::string& line) {
  return ("\n" + page).find("\n" + line + "\n") != std::string::npos;
}

TEST(VllmNamesTest, ValuesAreTheSameUnderOtherNames) {
  Metrics metrics;
  metrics.Of("m").FirstToken(0.3);
  metrics.Of("m").Accepted(/*emitted=*/4, /*accepted_drafts=*/3);
  metrics.Of("m").Round({.verified_at = {5, 2}, .accepted_at = {4, 1}});
  metrics.Ended({.model = "m", .was_stopped = true});
  metrics.Ended({.model = "n"});

  const std::string page = PageOf(metrics);

  EXPECT_TRUE(
      Has(page, "vllm:time_to_first_token_seconds_count{model_name=\"m\"} 1"));
  EXPECT_TRUE(Has(page,
                  "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le="
                  "\"0.5\"} 1"));
  EXPECT_TRUE(
      Has(page, "vllm:spec_decode_num_drafts_total{model_name=\"m\"} 1"));
  EXPECT_TRUE(Has(
      page, "vllm:spec_decode_num_accepted_tokens_total{model_name=\"m\"} 3"));
  // Positions are counted from 0.
  EXPECT_TRUE(
      Has(page,
          "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\","
          "model_name=\"m\"} 4"));
  EXPECT_NE(page.find("vllm:request_success_total{"), std::string::npos);
  EXPECT_EQ(page.find("bole_"), std::string::npos);
}

TEST(VllmNamesTest, WorkersAreEnginesOfTheirModel) {
  Metrics metrics;
  SchedulerStatus status;
  status.models = {{.name = "m", .running = 2, .waiting = 3}};
  status.workers = {{.name = "a:1",
                     .description = std::make_shared<WorkerDescription>(),
                     .model = "m",
                     .pages = {.total = 4, .free = 3}}};
  metrics.SetLoad(status, AdmissionLoad());

  const std::string page = PageOf(metrics);

  EXPECT_TRUE(Has(page, "vllm:num_requests_running{model_name=\"m\"} 2"));
  EXPECT_TRUE(Has(page, "vllm:num_requests_waiting{model_name=\"m\"} 3"));
  EXPECT_TRUE(Has(
      page, "vllm:kv_cache_usage_perc{engine=\"a:1\",model_name=\"m\"} 0.25"));
}

TEST(VllmNamesTest, NothingIsMadeUpOfNothing) {
  const Metrics metrics;

  EXPECT_EQ(PageOf(metrics).find("num_requests_running"), std::string::npos);
}

}  // namespace
}  // namespace bole
