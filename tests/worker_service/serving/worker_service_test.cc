#include "worker_service/serving/worker_service.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/net/service_host.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/protocol_version.h"
#include "proto/worker.grpc.pb.h"
#include "tests/testing/random_step.h"
#include "tests/worker_service/loop/held_engine.h"
#include "tests/worker_service/serving/execute_client.h"
#include "tests/worker_service/serving/served_worker.h"
#include "worker_service/loop/compute_loop.h"

namespace bole {
namespace {

using ::bole::testing::ExecuteClient;
using ::bole::testing::HelloAt;
using ::bole::testing::InvalidPlan;
using ::bole::testing::NamedPlan;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::ServedWorker;
using ::testing::HasSubstr;
namespace wire = worker::v1;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class WorkerServiceTest : public ::testing::Test {
 protected:
  WorkerServiceTest() { Serve(milliseconds(20)); }

  void Serve(milliseconds heartbeat_interval,
             milliseconds step_timeout = milliseconds(0)) {
    worker_ = std::make_unique<ServedWorker>(WorkerServiceOptions{
        .info = {.model = "fake",
                 .device = "none",
                 .version = "1",
                 .limits = RandomPlanLimits(),
                 .synthetic = true,
                 .fingerprint = {.config = "c", .weights = "w"},
                 .stop_tokens = {5, 6},
                 .top_k = 20,
                 .min_p = 0.5f},
        .step_timeout = step_timeout,
        .heartbeat_interval = heartbeat_interval});
  }

  std::unique_ptr<ExecuteClient> OpenAt(uint64_t epoch) {
    return testing::OpenAt(worker_->channel(), epoch);
  }

  // What a stream that sends these requests ends with.
  grpc::Status EndOf(const std::vector<wire::ExecuteRequest>& requests) {
    ExecuteClient client(worker_->channel());
    for (const wire::ExecuteRequest& request : requests) client.Send(request);
    return client.Finish();
  }

  std::unique_ptr<ServedWorker> worker_;
};

wire::ExecuteRequest Request(uint64_t epoch, uint64_t sequence) {
  wire::ExecuteRequest request;
  request.set_epoch(epoch);
  request.set_sequence(sequence);
  return request;
}

TEST_F(WorkerServiceTest, DescribesWhatItRuns) {
  grpc::ClientContext context;
  wire::DescribeResponse response;

  const grpc::Status status = wire::Worker::NewStub(worker_->channel())
                                  ->Describe(&context, {}, &response);

  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.model(), "fake");
  EXPECT_EQ(response.limits().num_pages(), RandomPlanLimits().num_pages);
  EXPECT_EQ(response.eos_token_ids_size(), 2);
  EXPECT_EQ(response.defaults().top_k(), 20);
  EXPECT_EQ(response.defaults().min_p(), 0.5f);
  EXPECT_EQ(response.defaults().repetition_penalty(), 1);
  EXPECT_FALSE(response.has_drafter());
  EXPECT_EQ(response.protocol_version(), kProtocolVersion);
  EXPECT_TRUE(response.synthetic());
  EXPECT_EQ(response.fingerprint().config(), "c");
  EXPECT_EQ(response.fingerprint().tokenizer(), "");
  EXPECT_EQ(response.fingerprint().weights(), "w");
}

TEST_F(WorkerServiceTest, AnswersPlansInTheirOrder) {
  const auto client = OpenAt(3);
  // More than are read ahead.
  const int plans = 3 * static_cast<int>(ComputeLoop::kMaxWaiting);
  for (int i = 1; i <= plans; ++i) client->SendPlan(3, i, NamedPlan(i));

  for (int i = 1; i <= plans; ++i) {
    const wire::StepOutcome outcome = client->ReceiveOutcome();
    EXPECT_EQ(outcome.sequence(), static_cast<uint64_t>(i));
    EXPECT_EQ(outcome.result().prefills(0).committed(), i);
  }
}

TEST_F(WorkerServiceTest, OpenedSaysHowOftenItBeats) {
  ExecuteClient client(worker_->channel());
  client.SendHello(1);

  EXPECT_EQ(client.ReceiveOpened().opened().heartbeat_interval_ms(), 20u);
}

TEST_F(WorkerServiceTest, RefusesAnEpochThatIsNotHigher) {
  { const auto client = OpenAt(5); }

  for (const uint64_t epoch : {0, 4, 5}) {
    EXPECT_EQ(EndOf({HelloAt(epoch)}).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION);
  }
  OpenAt(6);
}

TEST_F(WorkerServiceTest, AHigherEpochTakesOver) {
  const auto old_client = OpenAt(1);
  const auto new_client = OpenAt(2);

  EXPECT_EQ(old_client->Finish().error_code(), grpc::StatusCode::ABORTED);
  new_client->SendPlan(2, 1, NamedPlan(9));
  EXPECT_EQ(new_client->ReceiveOutcome().result().prefills(0).committed(), 9);
}

TEST_F(WorkerServiceTest, AStepOfTheOldEpochEndsBeforeOneOfTheNewBegins) {
  worker_->engine.Hold();
  const auto old_client = OpenAt(1);
  old_client->SendPlan(1, 1, NamedPlan(1));
  worker_->engine.AwaitBegun(1);
  const auto new_client = OpenAt(2);
  new_client->SendPlan(2, 1, NamedPlan(2));
  EXPECT_EQ(old_client->Finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(worker_->engine.begun(), 1);

  worker_->engine.Release();

  // The old one's outcome does not come here.
  const wire::StepOutcome outcome = new_client->ReceiveOutcome();
  EXPECT_EQ(outcome.result().prefills(0).committed(), 2);
  EXPECT_EQ(worker_->engine.begun(), 2);
}

TEST_F(WorkerServiceTest, EndsAStreamThatBreaksTheRules) {
  wire::ExecuteRequest plan = Request(1, 1);
  plan.mutable_plan();
  wire::ExecuteRequest gap = plan;
  gap.set_sequence(2);
  wire::ExecuteRequest other_epoch = plan;
  other_epoch.set_epoch(99);
  wire::ExecuteRequest undecodable = plan;
  undecodable.mutable_plan()->mutable_forest()->add_parent(7);
  wire::ExecuteRequest eager = HelloAt(1);
  eager.mutable_plan();
  wire::ExecuteRequest numbered = HelloAt(4);
  numbered.set_sequence(1);
  const std::vector<std::pair<const char*, std::vector<wire::ExecuteRequest>>>
      cases = {{"a gap", {HelloAt(1), gap}},
               {"another epoch", {HelloAt(2), other_epoch}},
               {"no plan", {HelloAt(3), Request(3, 1)}},
               {"not decodable", {HelloAt(1), undecodable}},
               {"a plan first", {eager}},
               {"a sequence first", {numbered}}};

  uint64_t epoch = 10;
  for (const auto& [name, requests] : cases) {
    SCOPED_TRACE(name);
    std::vector<wire::ExecuteRequest> sent = requests;
    ++epoch;
    for (wire::ExecuteRequest& request : sent) {
      if (request.epoch() != 99) request.set_epoch(epoch);
    }

    EXPECT_EQ(EndOf(sent).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(worker_->engine.begun(), 0);
}

TEST_F(WorkerServiceTest, ASequenceMayNotComeTwice) {
  const auto client = OpenAt(1);
  client->SendPlan(1, 1, NamedPlan(1));
  client->ReceiveOutcome();
  client->SendPlan(1, 1, NamedPlan(2));

  EXPECT_EQ(client->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(worker_->engine.begun(), 1);
}

TEST_F(WorkerServiceTest, ARefusedPlanLeavesTheStreamOpen) {
  const auto client = OpenAt(1);
  client->SendPlan(1, 1, InvalidPlan());
  client->SendPlan(1, 2, NamedPlan(4));

  const wire::StepOutcome refused = client->ReceiveOutcome();
  const wire::StepOutcome answered = client->ReceiveOutcome();

  EXPECT_EQ(refused.sequence(), 1u);
  EXPECT_EQ(refused.refusal().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(refused.refusal().message().find("slot is 1048576"),
            std::string::npos);
  EXPECT_EQ(answered.result().prefills(0).committed(), 4);
  EXPECT_EQ(worker_->engine.begun(), 1);
}

TEST_F(WorkerServiceTest, BeatsWhileAStepRuns) {
  worker_->engine.Hold();
  const auto client = OpenAt(1);
  client->SendPlan(1, 1, NamedPlan(1));
  worker_->engine.AwaitBegun(1);

  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client->ReceiveHeartbeat().last_sequence(), 0u);
  }
  worker_->engine.Release();
  client->ReceiveOutcome();
  // One may have been on its way.
  client->ReceiveHeartbeat();
  EXPECT_EQ(client->ReceiveHeartbeat().last_sequence(), 1u);
}

TEST_F(WorkerServiceTest, AClientThatLeavesInMidStepLeavesTheWorkerFree) {
  worker_->engine.Hold();
  {
    const auto client = OpenAt(1);
    client->SendPlan(1, 1, NamedPlan(1));
    client->SendPlan(1, 2, NamedPlan(2));
    worker_->engine.AwaitBegun(1);
  }
  EXPECT_TRUE(
      worker_->service().WaitUntilDrained(steady_clock::now() + seconds(30)));
  worker_->engine.Release();

  const auto client = OpenAt(2);
  client->SendPlan(2, 1, NamedPlan(3));
  EXPECT_EQ(client->ReceiveOutcome().result().prefills(0).committed(), 3);
  // The plan that waited was dropped.
  EXPECT_EQ(worker_->engine.begun(), 2);
}

TEST_F(WorkerServiceTest, AClientWithNothingMoreToSayEndsItsStream) {
  const auto client = OpenAt(1);
  client->CloseWrites();

  EXPECT_TRUE(client->Finish().ok());
}

TEST_F(WorkerServiceTest, DrainIsToldAtOnceAndWaitsForTheStreamToEnd) {
  Serve(std::chrono::hours(1));  // No heartbeat of its own.
  const auto client = OpenAt(1);
  auto drained = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    wire::DrainResponse response;
    return wire::Worker::NewStub(worker_->channel())
        ->Drain(&context, {}, &response);
  });

  EXPECT_TRUE(client->ReceiveHeartbeat().draining());
  client->SendPlan(1, 1, NamedPlan(8));  // What runs may end.
  EXPECT_EQ(client->ReceiveOutcome().result().prefills(0).committed(), 8);
  EXPECT_EQ(drained.wait_for(milliseconds(50)), std::future_status::timeout);
  client->CloseWrites();

  EXPECT_TRUE(client->Finish().ok());
  EXPECT_TRUE(drained.get().ok());
}

TEST_F(WorkerServiceTest, CancellingADrainDoesNotTakeItBack) {
  Serve(std::chrono::hours(1));
  const auto client = OpenAt(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + milliseconds(50));
  wire::DrainResponse response;

  const grpc::Status status =
      wire::Worker::NewStub(worker_->channel())->Drain(&context, {}, &response);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(client->ReceiveHeartbeat().draining());
  EXPECT_TRUE(OpenAt(2)->ReceiveHeartbeat().draining());
}

TEST_F(WorkerServiceTest, AnEngineThatFailsEndsTheStreamAndAllService) {
  worker_->engine.FailFromNowOn();
  const auto client = OpenAt(1);
  client->SendPlan(1, 1, NamedPlan(1));

  const grpc::Status status = client->Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_NE(status.error_message().find("the device is gone"),
            std::string::npos);
  EXPECT_EQ(worker_->failure.get_future().get().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(EndOf({HelloAt(2)}).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(worker_->MetricsText(),
              HasSubstr("bole_worker_failures_total{reason=\"error\"} 1"));
}

TEST_F(WorkerServiceTest, AnEngineThatHangsEndsTheStreamAndAllService) {
  Serve(milliseconds(20), /*step_timeout=*/milliseconds(50));
  worker_->engine.Hold();
  const auto client = OpenAt(1);
  client->SendPlan(1, 1, NamedPlan(1));

  const grpc::Status status = client->Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(status.error_message(), HasSubstr("plan 1 of stream 1 ("));
  EXPECT_THAT(status.error_message(), HasSubstr("--step-timeout-seconds"));
  EXPECT_EQ(worker_->failure.get_future().get().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(EndOf({HelloAt(2)}).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(worker_->MetricsText(),
              HasSubstr("bole_worker_failures_total{reason=\"hang\"} 1"));
  worker_->engine.Release();
}

TEST_F(WorkerServiceTest, ADeviceThatIsLostWhileNothingRunsEndsAllService) {
  const auto client = OpenAt(1);

  worker_->service().Lose(absl::UnavailableError("rank 1 was killed"));

  const grpc::Status status = client->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(),
            "this worker has to be restarted: UNAVAILABLE: rank 1 was killed");
  EXPECT_EQ(worker_->failure.get_future().get().message(),
            status.error_message());
  EXPECT_EQ(EndOf({HelloAt(2)}).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(worker_->MetricsText(),
              HasSubstr("bole_worker_failures_total{reason=\"error\"} 1"));
}

TEST_F(WorkerServiceTest, AStepThatFailsSaysWhyADeviceIsLost) {
  const auto client = OpenAt(1);
  worker_->engine.FailFromNowOn();
  client->SendPlan(1, 1, NamedPlan(1));

  worker_->service().Lose(absl::UnavailableError("rank 1 was killed"));

  EXPECT_THAT(client->Finish().error_message(),
              HasSubstr("plan 1 of stream 1 ("));
  EXPECT_THAT(worker_->MetricsText(),
              HasSubstr("bole_worker_failures_total{reason=\"error\"} 1"));
}

TEST_F(WorkerServiceTest, StopEndsTheStream) {
  const auto client = OpenAt(1);

  worker_->service().Stop();

  EXPECT_EQ(client->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(EndOf({HelloAt(2)}).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(WorkerServiceTest, SchedulersThatComeAndGoLeaveNothingBehind) {
  for (uint64_t epoch = 1; epoch <= 100; ++epoch) {
    const auto client = OpenAt(epoch);
    client->SendPlan(epoch, 1, NamedPlan(1));
    if (epoch % 3 == 0) client->ReceiveOutcome();
    if (epoch % 3 == 1) client->Cancel();
  }
  EXPECT_TRUE(
      worker_->service().WaitUntilDrained(steady_clock::now() + seconds(30)));

  const auto client = OpenAt(101);
  client->SendPlan(101, 1, NamedPlan(6));
  EXPECT_EQ(client->ReceiveOutcome().result().prefills(0).committed(), 6);
}

}  // namespace
}  // namespace bole
