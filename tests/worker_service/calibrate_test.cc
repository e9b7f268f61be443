// A worker is calibrated over gRPC, on a tiny synthetic model.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/step_costs.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "proto/worker.grpc.pb.h"
#include "tests/testing/random_step.h"
#include "tests/worker_service/execute_client.h"
#include "tests/worker_service/held_engine.h"
#include "tests/worker_service/served_worker.h"
#include "worker_service/worker_server.h"
#include "worker_service/worker_service.h"

namespace bole {
namespace {

using ::bole::testing::ExecuteClient;
using ::bole::testing::OpenAt;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::ServedWorker;
using ::testing::HasSubstr;
namespace wire = worker::v1;

WorkerServerOptions TinyWorker() {
  WorkerServerOptions options;
  options.model = "synthetic:tiny,noise=1";
  options.num_threads = 1;
  options.engine.max_requests = 2;
  options.engine.max_nodes_per_tree = 16;
  options.engine.max_prefill_tokens = 64;
  options.engine.max_context = 256;
  options.engine.max_draft = {.top_k = 2, .depth = 3};
  return options;
}

std::unique_ptr<WorkerServer> StartOrDie(const WorkerServerOptions& options) {
  absl::StatusOr<std::unique_ptr<WorkerServer>> server =
      WorkerServer::Start(options);
  EXPECT_EQ(server.status(), absl::OkStatus());
  return *std::move(server);
}

std::shared_ptr<grpc::Channel> ChannelTo(const WorkerServer& server) {
  return grpc::CreateChannel(server.address().ToString(),
                             grpc::InsecureChannelCredentials());
}

struct Calibrated {
  grpc::Status status;
  int messages = 0;
  wire::CalibrateProgress last;
};
Calibrated CalibrateOver(const std::shared_ptr<grpc::Channel>& channel,
                         const wire::CalibrateRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(1));
  const auto reader =
      wire::Worker::NewStub(channel)->Calibrate(&context, request);
  Calibrated calibrated;
  wire::CalibrateProgress progress;
  while (reader->Read(&progress)) {
    ++calibrated.messages;
    calibrated.last = progress;
  }
  calibrated.status = reader->Finish();
  return calibrated;
}

wire::DescribeResponse DescriptionOver(
    const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  wire::DescribeResponse response;
  const grpc::Status status =
      wire::Worker::NewStub(channel)->Describe(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

TEST(CalibrateTest, AWorkerIsMeasuredAndTellsTheTable) {
  const auto server = StartOrDie(TinyWorker());
  const auto channel = ChannelTo(*server);
  EXPECT_EQ(DescriptionOver(channel).cost_table(), "");
  wire::CalibrateRequest request;
  request.set_round_trip_us(250);

  const Calibrated calibrated = CalibrateOver(channel, request);

  ASSERT_TRUE(calibrated.status.ok()) << calibrated.status.error_message();
  EXPECT_GT(calibrated.messages, 1);
  const std::string text = calibrated.last.cost_table();
  EXPECT_EQ(DescriptionOver(channel).cost_table(), text);
  const absl::StatusOr<CostTable> table = ParseCostTable(text);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->of.model, "synthetic:tiny,noise=1");
  EXPECT_EQ(table->of.device, "cpu, 1 thread");
  EXPECT_DOUBLE_EQ(table->round_trip_seconds, 250e-6);
  EXPECT_GT(table->num_combinations, 20);
  EXPECT_GT(table->num_measurements, 5 * table->num_combinations);
  EXPECT_GT(table->held_out.size(), 5u);
  // Plain decoding takes time, a draft takes more, and so does a chunk.
  RoundQuantities round{};
  const auto set = [&round](Quantity quantity, double value) {
    round[static_cast<size_t>(quantity)] = value;
  };
  for (const Quantity quantity :
       {Quantity::kRows, Quantity::kForwardRows, Quantity::kRequests}) {
    set(quantity, 1);
  }
  set(Quantity::kKvTokens, 64);
  const auto plain = table->costs.TimeOf(round);
  EXPECT_GT(plain.count(), 0);
  set(Quantity::kDraftTopK, 2);
  set(Quantity::kDraftDepth, 3);
  const auto drafting = table->costs.TimeOf(round);
  EXPECT_GT(drafting, plain);
  set(Quantity::kPrefillTokens, 64);
  set(Quantity::kForwardRows, 65);
  EXPECT_GT(table->costs.TimeOf(round), drafting);
  // A scheduler is let in again.
  OpenAt(channel, 1);
}

TEST(CalibrateTest, ATableIsLoadedWhereItWasMeasured) {
  const std::string path = ::testing::TempDir() + "/costs.json";
  {
    const auto server = StartOrDie(TinyWorker());
    CostTable table;
    table.of = {.model = "synthetic:tiny,noise=1",
                .fingerprint = "",
                .device = "cpu, 1 thread",
                .build = DescriptionOver(ChannelTo(*server)).version()};
    std::ofstream(path) << ToJson(table);
  }
  WorkerServerOptions options = TinyWorker();
  options.cost_table_path = path;

  const auto server = StartOrDie(options);

  const wire::DescribeResponse described = DescriptionOver(ChannelTo(*server));
  EXPECT_TRUE(ParseCostTable(described.cost_table()).ok());
  EXPECT_EQ(described.row_buckets_size(), 0);  // A CPU pads nothing.

  options.num_threads = 2;
  const absl::Status other = WorkerServer::Start(options).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("device 'cpu, 1 thread', and this worker has 'cpu, 2 "
                        "threads'"));
}

WorkerServiceOptions FakeOptions() {
  return {.info = {.model = "fake",
                   .limits = RandomPlanLimits(),
                   .row_buckets = {1, 2, 4},
                   .request_buckets = {1, 2}}};
}

TEST(CalibrateTest, BucketsAreDescribed) {
  const ServedWorker worker(FakeOptions());
  const wire::DescribeResponse described = DescriptionOver(worker.channel());

  EXPECT_THAT(described.row_buckets(), ::testing::ElementsAre(1, 2, 4));
  EXPECT_THAT(described.request_buckets(), ::testing::ElementsAre(1, 2));
}

TEST(CalibrateTest, AWorkerThatASchedulerHoldsIsNotCalibrated) {
  const ServedWorker worker(FakeOptions());
  const auto scheduler = OpenAt(worker.channel(), 1);

  const Calibrated calibrated = CalibrateOver(worker.channel(), {});

  EXPECT_EQ(calibrated.status.error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(calibrated.status.error_message(),
              HasSubstr("the worker obeys scheduler tester"));
}

TEST(CalibrateTest, SchedulersAndOthersWaitUntilItHasEnded) {
  ServedWorker worker(FakeOptions());
  worker.engine.Hold();
  grpc::ClientContext context;
  const auto reader =
      wire::Worker::NewStub(worker.channel())->Calibrate(&context, {});
  worker.engine.AwaitBegun(1);

  ExecuteClient scheduler(worker.channel());
  scheduler.SendHello(1);
  const grpc::Status refused = scheduler.Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr("is being calibrated"));
  const Calibrated second = CalibrateOver(worker.channel(), {});
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(second.status.error_message(), HasSubstr("another calibration"));

  // The client goes, and the step that runs is finished.
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  worker.engine.Release();
  grpc::Status status;
  for (int i = 0; i < 3000; ++i) {
    ExecuteClient again(worker.channel());
    again.SendHello(static_cast<uint64_t>(i) + 2);
    if (again.Receive()) return;
    status = again.Finish();
    ASSERT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  FAIL() << status.error_message();
}

TEST(CalibrateTest, ItEndsWhenTheWorkerStops) {
  ServedWorker worker(FakeOptions());
  worker.engine.Hold();
  grpc::ClientContext context;
  const auto reader =
      wire::Worker::NewStub(worker.channel())->Calibrate(&context, {});
  worker.engine.AwaitBegun(1);

  worker.service().WaitUntilDrained(std::chrono::steady_clock::now());

  wire::CalibrateProgress progress;
  while (reader->Read(&progress)) continue;
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the worker is to leave");
  worker.engine.Release();
}

TEST(CalibrateTest, AnEngineThatFailsEndsItAsWell) {
  ServedWorker worker(FakeOptions());
  worker.engine.FailFromNowOn();

  const Calibrated calibrated = CalibrateOver(worker.channel(), {});

  EXPECT_EQ(calibrated.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(calibrated.status.error_message(),
              HasSubstr("the device is gone"));
}

}  // namespace
}  // namespace bole
