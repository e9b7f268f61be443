#include "clients/bench/server_metrics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bole::bench {
namespace {

constexpr char kPage[] = R"(# HELP bole_requests_total Admitted requests.
# TYPE bole_requests_total counter
bole_requests_total{code="OK"} 3
bole_requests_total{code="CANCELLED"} 1 1700000000
bole_rejected_total{reason="queue_requests"} 2
bole_rejected_total{reason="a b"} 5
bole_time_to_first_token_seconds_sum 1.5
bole_time_to_first_token_seconds_count 3
nonsense
)";

TEST(ServerMetricsTest, SamplesAreReadBySeries) {
  const MetricValues values = ParseMetrics(kPage);

  EXPECT_EQ(values.size(), 6u);
  EXPECT_EQ(values.at("bole_requests_total{code=\"OK\"}"), 3);
  EXPECT_EQ(values.at("bole_requests_total{code=\"CANCELLED\"}"), 1);
  EXPECT_EQ(values.at("bole_rejected_total{reason=\"a b\"}"), 5);
  EXPECT_EQ(values.at("bole_time_to_first_token_seconds_sum"), 1.5);
}

TEST(ServerMetricsTest, ASeriesThatAppearsBeganAtZero) {
  const MetricValues difference =
      Difference({{"a", 2}, {"gone", 1}}, {{"a", 5}, {"new", 7}});

  EXPECT_EQ(difference, (MetricValues{{"a", 3}, {"new", 7}}));
}

// One request: sent at 0, a token at 0.5, two at 0.7, ended at 0.7.
Report OneRequest() {
  RequestRecord record;
  record.scheduled = -5;
  record.arrivals = {{0.5, 1}, {0.7, 2}};
  record.end = 0.7;
  record.prompt_tokens = 8;
  record.speculation.set_rounds(1);
  record.speculation.set_accepted_drafts(1);
  const std::vector<RequestRecord> records = {record};
  return MakeReport(records, {}, 0);
}

MetricValues ServerOfOneRequest() {
  return {{"bole_requests_total{code=\"OK\"}", 1},
          {"bole_rejected_total{reason=\"invalid_argument\"}", 0},
          {"bole_generation_tokens_total", 3},
          {"bole_prompt_tokens_total", 8},
          {"bole_spec_rounds_total", 1},
          {"bole_spec_accepted_tokens_total", 1},
          {"bole_time_to_first_token_seconds_sum", 0.48},
          {"bole_time_to_first_token_seconds_count", 1},
          {"bole_time_per_output_token_seconds_sum", 0.1},
          {"bole_time_per_output_token_seconds_count", 1},
          {"bole_inter_token_latency_seconds_sum", 0.2},
          {"bole_inter_token_latency_seconds_count", 2},
          {"bole_e2e_request_latency_seconds_sum", 0.68},
          {"bole_e2e_request_latency_seconds_count", 1}};
}

std::string Differing(const MetricValues& server, double round_trip = 0) {
  std::string names;
  for (const MetricPair& pair :
       CompareWithServer(OneRequest(), server, round_trip)) {
    if (!pair.agrees) names += pair.name + ";";
  }
  return names;
}

TEST(ServerMetricsTest, WhatTheServerSawAgrees) {
  EXPECT_EQ(Differing(ServerOfOneRequest()), "");
}

TEST(ServerMetricsTest, CountsMustBeEqual) {
  MetricValues server = ServerOfOneRequest();
  server["bole_generation_tokens_total"] = 4;
  server["bole_rejected_total{reason=\"draining\"}"] = 1;

  EXPECT_EQ(Differing(server), "refused;output tokens;");
}

TEST(ServerMetricsTest, MeansMayDifferByFivePercentAndARoundTrip) {
  MetricValues server = ServerOfOneRequest();
  server["bole_time_to_first_token_seconds_sum"] = 0.4;

  EXPECT_EQ(Differing(server), "ttft mean;");
  EXPECT_EQ(Differing(server, /*round_trip=*/0.079), "ttft mean;");
  EXPECT_EQ(Differing(server, /*round_trip=*/0.081), "");
}

}  // namespace
}  // namespace bole::bench
