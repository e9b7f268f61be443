// Two schedulers' links and one worker, all of them real but for its engine.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/grpc_worker_client.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/scheduler_service/links/fake_worker.h"
#include "tests/testing/random_step.h"
#include "tests/worker_service/loop/held_engine.h"
#include "tests/worker_service/serving/served_worker.h"
#include "worker_service/serving/worker_service.h"

namespace bole {
namespace {

using ::bole::testing::EventLog;
using ::bole::testing::NamedPlan;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::ServedWorker;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr milliseconds kTimeout(500);

WorkerServiceOptions WorkerOptions() {
  return {.info = {.model = "fake", .limits = RandomPlanLimits()},
          .heartbeat_interval = milliseconds(20),
          .scheduler_timeout = kTimeout};
}

// A scheduler as its worker sees it.
struct Link {
  Link(const ServedWorker& worker, const char* name, uint64_t instance)
      : client(std::make_unique<GrpcWorkerClient>(
            GrpcWorkerClientOptions{
                .address = worker.address(),
                .scheduler = {.name = name, .instance = instance},
                .min_backoff = milliseconds(10),
                .max_backoff = milliseconds(20)},
            [this](WorkerNews news) { log.Add(std::move(news)); })) {}

  EventLog log;
  std::unique_ptr<GrpcWorkerClient> client;
};

TEST(TwoSchedulersTest, AnIdleSchedulerKeepsItsWorkerAndTheOtherIsToldWhose) {
  ServedWorker worker(WorkerOptions());
  Link a(worker, "a:1", 0xa);
  const auto connected = a.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);
  Link b(worker, "b:2", 0xb);

  const auto end = steady_clock::now() + kTimeout + milliseconds(100);
  while (steady_clock::now() < end) {
    const auto refused = b.log.NextAs<WorkerLost>();
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->why.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(refused->why.message()),
                HasSubstr("the worker obeys scheduler a:1 (instance a,"));
  }

  a.client->Send(connected->epoch, 1, NamedPlan(9), {});
  const auto outcome = a.log.NextAs<WorkerOutcome>();
  ASSERT_TRUE(outcome && outcome->result.ok());
  EXPECT_EQ(outcome->result->prefills[0].committed, 9);
}

TEST(TwoSchedulersTest, WhoWaitsGetsTheWorkerWhenTheFirstHasGone) {
  ServedWorker worker(WorkerOptions());
  Link a(worker, "a:1", 0xa);
  ASSERT_TRUE(a.log.NextAs<WorkerConnected>());
  Link b(worker, "b:2", 0xb);
  ASSERT_TRUE(b.log.NextAs<WorkerLost>());

  a.client.reset();

  while (std::optional<WorkerNews> news = b.log.Next()) {
    if (std::holds_alternative<WorkerConnected>(*news)) return;
  }
  FAIL() << "b was never let in";
}

}  // namespace
}  // namespace bole
