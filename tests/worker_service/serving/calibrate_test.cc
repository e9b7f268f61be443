// Workers are calibrated over gRPC, and by bole-calibrate: a tiny synthetic
// model, a tiny checkpoint, and engines that answer when they are told to.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/model_fingerprint.h"
#include "common/step_costs.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "proto/worker.grpc.pb.h"
#include "tests/clients/cli/process.h"
#include "tests/testing/random_step.h"
#include "tests/worker_service/loop/held_engine.h"
#include "tests/worker_service/model/files.h"
#include "tests/worker_service/serving/execute_client.h"
#include "tests/worker_service/serving/served_worker.h"
#include "tests/worker_service/serving/started_worker.h"
#include "worker_service/serving/worker_server.h"
#include "worker_service/serving/worker_service.h"

namespace bole {
namespace {

using ::bole::testing::ChannelTo;
using ::bole::testing::DescriptionOver;
using ::bole::testing::ExecuteClient;
using ::bole::testing::OpenAt;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::ServedWorker;
using ::bole::testing::StartOrDie;
using ::bole::testing_support::Process;
using ::bole::testing_support::Streams;
using ::testing::HasSubstr;
namespace wire = worker::v1;

WorkerServerOptions TinyWorker() {
  WorkerServerOptions options;
  options.model.name = "synthetic:tiny,noise=1";
  options.model.num_threads = 1;
  options.model.engine.max_requests = 2;
  options.model.engine.max_nodes_per_tree = 16;
  options.model.engine.max_prefill_tokens = 64;
  options.model.engine.max_context = 256;
  options.model.engine.max_draft = {.top_k = 2, .depth = 3};
  return options;
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

  options.model.num_threads = 2;
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

// A checkpoint of two hundred thousand parameters, in a folder of its own.
std::string LinkCheckpoint(const ScopedDirectory& folder,
                           const std::string& config_suffix) {
  namespace fs = std::filesystem;
  const fs::path golden = "tests/golden/dense";
  fs::create_directory(folder.File("tiny"));
  fs::create_symlink(fs::canonical(golden / "model.safetensors"),
                     folder.File("tiny/model.safetensors"));
  std::ifstream config(golden / "config.json");
  std::ofstream(folder.File("tiny/config.json"))
      << config.rdbuf() << config_suffix;
  std::ofstream vocabulary(folder.File("tiny/vocab.json"));
  vocabulary << R"({"0": 0)";
  for (int id = 1; id < 512; ++id) {
    vocabulary << ", \"" << id << "\": " << id;
  }
  vocabulary << "}";
  return folder.File("tiny");
}

std::vector<std::string> WorkerOf(const std::string& model) {
  return {"worker_service/bole-worker",
          "--model",
          model,
          "--listen",
          "127.0.0.1:0",
          "--threads",
          "1",
          "--max-requests",
          "2",
          "--context",
          "512",
          "--max-prefill",
          "64"};
}
std::vector<std::string> WorkerOf(const std::string& model,
                                  const std::string& table) {
  std::vector<std::string> command = WorkerOf(model);
  command.insert(command.end(), {"--cost-table", table});
  return command;
}

// Where it listens.
std::string AddressOf(Process& worker) {
  const std::string before = "listening on ";
  if (!worker.WaitFor(before) || !worker.WaitFor("\n")) return "";
  const std::string& out = worker.out();
  const size_t begin = out.find(before) + before.size();
  return out.substr(begin, out.find('\n', begin) - begin);
}

TEST(BoleCalibrateTest, ItsTableServesItsModelAndNoOther) {
  const ScopedDirectory folder;
  const std::string table = folder.File("costs.json");
  const std::string model = LinkCheckpoint(folder, "");
  Process worker(WorkerOf(model), "", Streams::kPipes);
  const std::string address = AddressOf(worker);
  ASSERT_NE(address, "");

  Process calibrate(
      {"worker_service/calibration/bole-calibrate", "--worker", address,
       "--coarse", "--out", table, "--plot", folder.File("costs.svg")},
      "", Streams::kPipes);

  ASSERT_EQ(calibrate.Wait(), 0) << calibrate.err();
  EXPECT_THAT(calibrate.err(), HasSubstr("measuring "));
  EXPECT_THAT(calibrate.out(), HasSubstr("--cost-table " + table));
  const absl::StatusOr<CostTable> measured = LoadCostTable(table);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->of.model, "tiny");
  EXPECT_FALSE(std::filesystem::is_empty(folder.File("costs.svg")));
  EXPECT_EQ(DescriptionOver(ChannelTo(address)).cost_table(),
            ToJson(*measured));

  Process same(WorkerOf(model, table), "", Streams::kPipes);
  EXPECT_EQ(DescriptionOver(ChannelTo(AddressOf(same))).cost_table(),
            ToJson(*measured));

  const ScopedDirectory elsewhere;
  const std::string changed = LinkCheckpoint(elsewhere, "\n");
  Process other(WorkerOf(changed, table), "", Streams::kPipes);
  EXPECT_EQ(other.Wait(), 1);
  const auto fingerprint = FingerprintOf(changed);
  ASSERT_TRUE(fingerprint.ok()) << fingerprint.status();
  EXPECT_THAT(other.err(), HasSubstr(measured->of.fingerprint));
  EXPECT_THAT(other.err(), HasSubstr(FingerprintForCosts(*fingerprint)));
}

TEST(BoleCalibrateTest, ItSaysWhichWorkerDoesNotAnswer) {
  Process calibrate({"worker_service/calibration/bole-calibrate", "--worker",
                     "127.0.0.1:1", "--out", ::testing::TempDir() + "/none"},
                    "", Streams::kPipes);

  EXPECT_EQ(calibrate.Wait(), 1);
  EXPECT_THAT(calibrate.err(), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace bole
