// The load generator's numbers are those of the scheduler that it measures.
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/bench/arrivals.h"
#include "clients/bench/grpc_transport.h"
#include "clients/bench/http_get.h"
#include "clients/bench/report.h"
#include "clients/bench/runner.h"
#include "clients/bench/schedule.h"
#include "clients/bench/server_metrics.h"
#include "clients/bench/synthetic.h"
#include "clients/bench/workload.h"
#include "clients/sdk/client.h"
#include "gtest/gtest.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

// As many as the test of counts has open at once: all may wait for a moment,
// until the scheduler's loop takes the first.
constexpr int kMaxWaiting = 4;

// Two requests run, and some more may wait.
SystemOptions SmallDoor() {
  SystemOptions options;
  options.metrics = true;
  options.scheduler.max_running = 2;
  options.scheduler.admission.max_requests = kMaxWaiting;
  return options;
}

class E2eBenchTest : public ::testing::Test {
 protected:
  // All tests share one pair of services.
  static System& system() {
    static System system(SmallDoor());
    return system;
  }

  static bench::MetricValues Scrape() {
    const absl::StatusOr<std::string> page = bench::HttpGet(
        "http://127.0.0.1:" +
        std::to_string(system().scheduler().metrics_port()) + "/metrics");
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? bench::ParseMetrics(*page) : bench::MetricValues();
  }

  // Runs the load and expects the server's counts. Means are for a quiet
  // machine, and for tests/bench/load.
  static bench::Report Measure(const bench::Workload& workload,
                               bench::ScheduleOptions schedule) {
    bench::RunnerOptions options;
    std::vector<std::shared_ptr<Client>> clients;
    for (int i = 0; i < 2; ++i) {
      clients.push_back(
          *Client::Create({.address = system().scheduler().address().ToString(),
                           .own_connection = true}));
    }
    options.transport =
        std::make_shared<bench::GrpcTransport>(std::move(clients));
    options.conversation.vocab_size = 4000;
    options.conversation.sampling.set_ignore_eos(true);
    bench::Runner runner(std::move(options));
    const bench::MetricValues before = Scrape();

    const bench::RunResult result = runner.Run(workload, std::move(schedule));

    const bench::MetricValues server = bench::Difference(before, Scrape());
    bench::Report report =
        bench::MakeReport(result.records, {}, result.num_dropped);
    for (const bench::MetricPair& pair :
         bench::CompareWithServer(report, server, /*round_trip_seconds=*/0)) {
      if (!pair.is_count) continue;
      EXPECT_EQ(pair.client, pair.server) << pair.name;
    }
    system().ExpectIdle();
    return report;
  }
};

TEST_F(E2eBenchTest, EveryTokenIsCountedAsTheServerCounts) {
  const bench::Workload workload = bench::MakeSynthetic({.num_sessions = 12,
                                                         .input_tokens = 40,
                                                         .output_tokens = 12,
                                                         .spread = 0.5});

  const bench::Report report =
      Measure(workload, {.concurrency = kMaxWaiting, .num_instances = 12});

  EXPECT_EQ(report.num_succeeded, 12);
  EXPECT_GT(report.mean_accepted_tokens(), 1);
  EXPECT_EQ(report.itl.count(), static_cast<size_t>(report.output_tokens - 12));
}

TEST_F(E2eBenchTest, WhatAFullServerRefusesIsCountedAsRefused) {
  const bench::Workload workload = bench::MakeSynthetic(
      {.num_sessions = 30, .input_tokens = 40, .output_tokens = 40});
  const double all_at_once = std::numeric_limits<double>::infinity();

  const bench::Report report = Measure(
      workload, {.arrivals = bench::MakeArrivals({.rate = all_at_once}, 30)});

  EXPECT_GT(report.num_refused, 0);
  EXPECT_GT(report.num_succeeded, 0);
  EXPECT_EQ(report.num_succeeded + report.num_refused, 30);
  EXPECT_EQ(report.failures.at("RESOURCE_EXHAUSTED QUEUE_REQUESTS"),
            report.num_refused);
}

TEST_F(E2eBenchTest, LaterTurnsAreAskedWithTheAnswersBefore) {
  bench::Workload workload = bench::MakeSynthetic(
      {.num_sessions = 2, .input_tokens = 20, .output_tokens = 6});
  for (bench::Session& session : workload.sessions) {
    session.turns.push_back(session.turns[0]);
    session.turns[1].think_seconds = 0.01;
  }

  const bench::Report report = Measure(workload, {.arrivals = {0, 0}});

  EXPECT_EQ(report.num_succeeded, 4);
  // The second prompt is the first, its answer, and as much again.
  EXPECT_EQ(report.prompt_tokens, 2 * (20 + 20 + 6 + 20));
}

}  // namespace
}  // namespace bole::e2e
