// Which of several schedulers a worker obeys, over gRPC.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "proto/protocol_version.h"
#include "proto/worker.pb.h"
#include "tests/testing/random_step.h"
#include "tests/worker_service/loop/held_engine.h"
#include "tests/worker_service/serving/execute_client.h"
#include "tests/worker_service/serving/served_worker.h"
#include "worker_service/loop/compute_loop.h"
#include "worker_service/serving/worker_service.h"

namespace bole {
namespace {

using ::bole::testing::ExecuteClient;
using ::bole::testing::NamedPlan;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::ServedWorker;
using ::testing::HasSubstr;
namespace wire = worker::v1;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kHeartbeat(10);
constexpr milliseconds kTimeout(500);

WorkerServiceOptions Options(milliseconds scheduler_timeout) {
  return {.info = {.model = "fake", .limits = RandomPlanLimits()},
          .heartbeat_interval = kHeartbeat,
          .scheduler_timeout = scheduler_timeout};
}

wire::ExecuteRequest Hello(const std::string& name, uint64_t instance,
                           uint64_t epoch) {
  wire::ExecuteRequest hello;
  hello.set_epoch(epoch);
  hello.mutable_scheduler()->set_name(name);
  hello.mutable_scheduler()->set_instance(instance);
  hello.mutable_scheduler()->set_protocol_version(kProtocolVersion);
  return hello;
}

// A stream that this hello opens; the test fails if it is not let in.
std::unique_ptr<ExecuteClient> Open(const ServedWorker& worker,
                                    const wire::ExecuteRequest& hello) {
  auto client = std::make_unique<ExecuteClient>(worker.channel());
  client->Send(hello);
  EXPECT_EQ(client->ReceiveOpened().epoch(), hello.epoch());
  return client;
}

// What a stream of these requests ends with.
grpc::Status EndOf(const ServedWorker& worker,
                   const std::vector<wire::ExecuteRequest>& requests) {
  ExecuteClient client(worker.channel());
  for (const wire::ExecuteRequest& request : requests) client.Send(request);
  return client.Finish();
}

// Tries until the hello is let in; the last end if it never is.
grpc::Status AwaitSeat(const ServedWorker& worker, wire::ExecuteRequest hello) {
  const auto deadline = steady_clock::now() + seconds(20);
  while (true) {
    ExecuteClient client(worker.channel());
    client.Send(hello);
    const auto response = client.Receive();
    if (response && response->has_opened()) return grpc::Status::OK;
    grpc::Status end = client.Finish();
    if (steady_clock::now() > deadline) return end;
    hello.set_epoch(hello.epoch() + 1);
  }
}

TEST(WorkerServiceSchedulersTest, AnotherSchedulerIsRefusedWhileOneIsHeard) {
  ServedWorker worker(Options(hours(1)));
  const auto a = Open(worker, Hello("a:1", 0xa, 5));

  const grpc::Status refused = EndOf(worker, {Hello("b:2", 0xb, 900)});

  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("scheduler a:1 (instance a, epoch 5), heard 0."));
  EXPECT_THAT(worker.MetricsText(),
              HasSubstr("bole_plans_refused_total{reason=\"held\"} 1"));
  a->SendPlan(5, 1, NamedPlan(9));
  EXPECT_EQ(a->ReceiveOutcome().result().prefills(0).committed(), 9);
}

TEST(WorkerServiceSchedulersTest, ASchedulerThatLeavesIsFollowedAtOnce) {
  ServedWorker worker(Options(hours(1)));
  const auto a = Open(worker, Hello("a:1", 0xa, 5));
  a->CloseWrites();
  EXPECT_TRUE(a->Finish().ok());

  // Lower epochs than the former's are as good as any.
  EXPECT_TRUE(AwaitSeat(worker, Hello("b:2", 0xb, 1)).ok());
}

TEST(WorkerServiceSchedulersTest, ASchedulerWhoseConnectionBreaksIsFollowed) {
  ServedWorker worker(Options(hours(1)));
  const auto a = Open(worker, Hello("a:1", 0xa, 5));
  a->Cancel();

  EXPECT_TRUE(AwaitSeat(worker, Hello("b:2", 0xb, 1)).ok());
}

TEST(WorkerServiceSchedulersTest, AStoppedSchedulerLosesTheWorkerInTime) {
  ServedWorker worker(Options(kTimeout));
  // Its connection stays open and takes what comes, as that of a process that
  // was sent SIGSTOP.
  const auto stopped = Open(worker, Hello("a:1", 0xa, 5));
  const auto opened = steady_clock::now();

  EXPECT_TRUE(AwaitSeat(worker, Hello("b:2", 0xb, 1)).ok());

  EXPECT_GE(steady_clock::now() - opened, kTimeout - milliseconds(100));
  const grpc::Status end = stopped->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(end.error_message(), HasSubstr("scheduler b:2"));
}

TEST(WorkerServiceSchedulersTest, SignsOfLifeKeepTheWorker) {
  ServedWorker worker(Options(kTimeout));
  const auto a = Open(worker, Hello("a:1", 0xa, 5));
  wire::ExecuteRequest sign;
  sign.set_epoch(5);

  const auto end = steady_clock::now() + kTimeout + milliseconds(100);
  uint64_t epoch = 1;
  while (steady_clock::now() < end) {
    a->Send(sign);
    // Paces the loop as well: a heartbeat comes every few milliseconds.
    a->ReceiveHeartbeat();
    EXPECT_EQ(EndOf(worker, {Hello("b:2", 0xb, epoch++)}).error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }

  // They are no plans: the first plan is still number 1.
  a->SendPlan(5, 1, NamedPlan(9));
  EXPECT_EQ(a->ReceiveOutcome().result().prefills(0).committed(), 9);
}

TEST(WorkerServiceSchedulersTest, ASchedulerThatIsNotReadIsNotSilent) {
  ServedWorker worker(Options(kTimeout));
  worker.engine.Hold();
  const auto a = Open(worker, Hello("a:1", 0xa, 5));
  const int plans = static_cast<int>(ComputeLoop::kMaxWaiting);
  for (int i = 1; i <= plans; ++i) a->SendPlan(5, i, NamedPlan(i));
  worker.engine.AwaitBegun(1);

  const auto end = steady_clock::now() + kTimeout + milliseconds(100);
  uint64_t epoch = 1;
  while (steady_clock::now() < end) {
    EXPECT_EQ(EndOf(worker, {Hello("b:2", 0xb, epoch++)}).error_code(),
              grpc::StatusCode::UNAVAILABLE);
    a->ReceiveHeartbeat();
  }

  worker.engine.Release();
}

TEST(WorkerServiceSchedulersTest, EqualEpochsOfTwoSchedulersAreToldApart) {
  ServedWorker worker(Options(milliseconds(1)));
  worker.engine.Hold();
  const auto a = Open(worker, Hello("a:1", 0xa, 5));
  a->SendPlan(5, 1, NamedPlan(1));
  worker.engine.AwaitBegun(1);
  a->Cancel();
  ASSERT_TRUE(
      worker.service().WaitUntilDrained(steady_clock::now() + seconds(20)));
  const auto b = Open(worker, Hello("b:2", 0xb, 5));
  b->SendPlan(5, 1, NamedPlan(2));

  worker.engine.Release();

  EXPECT_EQ(b->ReceiveOutcome().result().prefills(0).committed(), 2);
}

TEST(WorkerServiceSchedulersTest, NeighbouringVersionsAreLetInAndNoOthers) {
  ServedWorker worker(Options(hours(1)));
  wire::ExecuteRequest hello = Hello("a:1", 0xa, 1);

  hello.mutable_scheduler()->set_protocol_version(kProtocolVersion + 2);
  const grpc::Status refused = EndOf(worker, {hello});
  wire::ExecuteRequest nameless;
  nameless.set_epoch(1);
  const grpc::Status too_old = EndOf(worker, {nameless});
  hello.mutable_scheduler()->set_protocol_version(kProtocolVersion + 1);
  const auto client = Open(worker, hello);

  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(refused.error_message(),
            "the scheduler's protocol_version is 5, this side's is 3; they may "
            "differ by 1 at most");
  EXPECT_EQ(too_old.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(worker.MetricsText(),
              HasSubstr("bole_plans_refused_total{reason=\"version\"} 2"));
}

TEST(WorkerServiceSchedulersTest, HellosThatBreakTheRulesAreRefused) {
  ServedWorker worker(Options(hours(1)));
  const wire::ExecuteRequest good = Hello("a:1", 0xa, 1);
  const wire::ExecuteRequest nobody = Hello("a:1", 0, 1);
  const wire::ExecuteRequest long_name = Hello(std::string(129, 'a'), 0xa, 1);

  EXPECT_THAT(EndOf(worker, {nobody}).error_message(),
              HasSubstr("scheduler.instance is 0"));
  EXPECT_THAT(EndOf(worker, {long_name}).error_message(),
              HasSubstr("scheduler.name has 129 bytes; allowed are 128"));
  EXPECT_THAT(EndOf(worker, {good, good}).error_message(),
              HasSubstr("which only the first request may have"));
}

}  // namespace
}  // namespace bole
