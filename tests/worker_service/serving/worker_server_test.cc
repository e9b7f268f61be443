// A whole worker on the demo checkpoint.
#include "worker_service/serving/worker_server.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/net/client_credentials.h"
#include "common/sha256.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/health.grpc.pb.h"
#include "proto/step_codec.h"
#include "proto/worker.grpc.pb.h"
#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/engine/faulty_backend.h"
#include "tests/worker_service/model/files.h"
#include "tests/worker_service/serving/execute_client.h"
#include "tests/worker_service/serving/started_worker.h"
#include "worker_service/loop/recorder.h"
#include "worker_service/ranks/ranked_model.h"

namespace bole {
namespace {

using ::bole::testing::ChannelTo;
using ::bole::testing::DescriptionOver;
using ::bole::testing::FaultyBackend;
using ::bole::testing::OpenAt;
using ::bole::testing::SmallPlan;
using ::bole::testing::StartOn;
using ::bole::testing::StartOrDie;
using ::testing::HasSubstr;
namespace wire = worker::v1;
using Serving = grpc::health::v1::HealthCheckResponse;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kModel[] = "models/demo";
constexpr char kGoldenSteps[] = "tests/golden/steps/trees.binpb";

// Enough for the golden steps.
WorkerServerOptions SmallWorker() {
  WorkerServerOptions options;
  options.model.name = kModel;
  options.model.num_threads = 1;
  return options;
}

Serving::ServingStatus HealthOver(
    const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("bole.worker.v1.Worker");
  Serving response;
  grpc::health::v1::Health::NewStub(channel)->Check(&context, request,
                                                    &response);
  return response.status();
}
Serving::ServingStatus HealthOf(const WorkerServer& server) {
  return HealthOver(ChannelTo(server));
}

std::vector<RecordedStep> GoldenSteps() {
  absl::StatusOr<std::vector<RecordedStep>> steps = ReadRecording(kGoldenSteps);
  EXPECT_EQ(steps.status(), absl::OkStatus());
  return *std::move(steps);
}

// What a stream of a fresh epoch answers to the plans.
std::vector<StepResult> ResultsOf(const WorkerServer& server, uint64_t epoch,
                                  const std::vector<RecordedStep>& steps) {
  const auto client = OpenAt(ChannelTo(server), epoch);
  std::vector<StepResult> results;
  for (size_t i = 0; i < steps.size(); ++i) {
    client->SendPlan(epoch, i + 1, steps[i].plan);
    results.push_back(*DecodeResult(client->ReceiveOutcome().result()));
  }
  return results;
}

TEST(WorkerServerTest, DescribesTheCheckpoint) {
  const auto server = StartOrDie(SmallWorker());

  const wire::DescribeResponse response = DescriptionOver(ChannelTo(*server));

  EXPECT_EQ(response.model(), "demo");
  EXPECT_EQ(response.device(), "cpu, 1 thread");
  EXPECT_TRUE(response.has_drafter());
  EXPECT_EQ(response.limits().vocabulary(), 8192);
  EXPECT_EQ(response.limits().max_context(), kMaxDefaultContext);
  EXPECT_GT(response.eos_token_ids_size(), 0);
  EXPECT_FALSE(response.synthetic());
  EXPECT_TRUE(IsSha256Hex(response.fingerprint().config()));
  EXPECT_TRUE(IsSha256Hex(response.fingerprint().tokenizer()));
  EXPECT_TRUE(IsSha256Hex(response.fingerprint().weights()));
  // Slots for 16 requests, and as many for checkpoints.
  EXPECT_EQ(response.limits().num_slots(), 32);
  const MemoryPlan& memory = server->model().memory();
  EXPECT_EQ(response.slot_bytes() * 32, memory.states);
  EXPECT_EQ(response.page_bytes() * response.limits().num_pages(),
            memory.kv_pages);
}

TEST(WorkerServerTest, ASyntheticModelSaysSoAndHasNoFiles) {
  WorkerServerOptions options = SmallWorker();
  options.model.name = "synthetic:tiny,noise=1";
  const auto server = StartOrDie(options);

  const wire::DescribeResponse response = DescriptionOver(ChannelTo(*server));

  EXPECT_TRUE(response.synthetic());
  EXPECT_EQ(response.fingerprint().ByteSizeLong(), 0u);
}

TEST(WorkerServerTest, DescribesTheDefaultsOfTheGenerationConfig) {
  namespace fs = std::filesystem;
  const ScopedDirectory folder;
  for (const fs::directory_entry& file : fs::directory_iterator(kModel)) {
    const fs::path& path = file.path();
    if (path.filename() == "generation_config.json") continue;
    fs::create_symlink(fs::canonical(path),
                       folder.File(path.filename().string()));
  }
  folder.Write("generation_config.json",
               R"({"temperature": 0.5, "min_p": 0.25,
                   "repetition_penalty": 1.5})");
  WorkerServerOptions options = SmallWorker();
  options.model.name = folder.path();
  const auto server = StartOrDie(options);

  const wire::DescribeResponse response = DescriptionOver(ChannelTo(*server));

  EXPECT_EQ(response.defaults().temperature(), 0.5f);
  EXPECT_EQ(response.defaults().min_p(), 0.25f);
  EXPECT_EQ(response.defaults().repetition_penalty(), 1.5f);
  // From config.json and from tokenizer_config.json.
  EXPECT_EQ(std::vector<int32_t>(response.eos_token_ids().begin(),
                                 response.eos_token_ids().end()),
            (std::vector<int32_t>{8187, 8189}));
}

TEST(WorkerServerTest, RecordsStepsThatAnotherWorkerRepeats) {
  WorkerServerOptions options = SmallWorker();
  options.record_path = ::testing::TempDir() + "/recorded.binpb";
  const std::vector<RecordedStep> golden = GoldenSteps();
  std::vector<StepResult> live;
  {
    const auto server = StartOrDie(options);
    live = ResultsOf(*server, 1, golden);
  }

  const absl::StatusOr<std::vector<RecordedStep>> recorded =
      ReadRecording(options.record_path);

  ASSERT_EQ(recorded.status(), absl::OkStatus());
  ASSERT_EQ(recorded->size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ((*recorded)[i].results, std::vector{live[i]}) << i;
  }
  EXPECT_EQ(ResultsOf(*StartOrDie(SmallWorker()), 1, *recorded), live);
}

// A model that could not be loaded either would be named if it came first.
TEST(WorkerServerTest,
     APathThatCannotBeRecordedInIsToldBeforeTheModelIsLoaded) {
  WorkerServerOptions options = SmallWorker();
  options.model.name = "no/such/model";
  options.record_path = "no/such/folder/steps.binpb";
  const absl::Status status = WorkerServer::Start(options).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(options.record_path));
}

// Every way of being wrong that a decoded plan has, made from a good one.
std::vector<std::pair<const char*, std::function<void(StepPlan&)>>> Spoilers() {
  return {
      {"slot", [](StepPlan& p) { p.prefills[0].sequence.slot = SlotId(-1); }},
      {"slot twice",
       [](StepPlan& p) {
         p.prefills[1].sequence.slot = p.prefills[0].sequence.slot;
       }},
      {"page",
       [](StepPlan& p) { p.prefills[0].sequence.pages[0] = PageId(1 << 30); }},
      {"page twice",
       [](StepPlan& p) {
         p.prefills[0].sequence.pages[0] = p.prefills[1].sequence.pages[0];
       }},
      {"too few pages",
       [](StepPlan& p) { p.prefills[0].sequence.pages.clear(); }},
      {"committed",
       [](StepPlan& p) { p.prefills[0].sequence.committed = INT32_MAX; }},
      {"prompt length",
       [](StepPlan& p) { p.prefills[0].sequence.prompt_length = 1 << 20; }},
      {"no new tokens",
       [](StepPlan& p) { p.prefills[0].sequence.max_new_tokens = 0; }},
      {"no tokens", [](StepPlan& p) { p.prefills[0].tokens.clear(); }},
      {"token", [](StepPlan& p) { p.prefills[0].tokens[0] = 8192; }},
      {"next token", [](StepPlan& p) { p.prefills[0].next_token = -1; }},
      {"temperature",
       [](StepPlan& p) { p.prefills[0].sequence.sampling.temperature = -1; }},
      {"draft",
       [](StepPlan& p) {
         p.draft = DraftShape{17, 1};
       }},
      {"sequence without tree",
       [](StepPlan& p) { p.sequences.push_back(p.prefills[0].sequence); }},
      {"two roots",
       [](StepPlan& p) {
         p.sequences.push_back(p.prefills[0].sequence);
         p.prefills.clear();
         p.forest = *BuildForest(std::vector<NodeList>{
             {.token = {1, 2}, .parent = {kNoParent, kNoParent}}});
       }},
  };
}

TEST(WorkerServerTest, RefusedPlansTouchNothing) {
  const std::vector<RecordedStep> golden = GoldenSteps();
  ASSERT_GE(golden[0].plan.prefills.size(), 2u);
  const auto server = StartOrDie(SmallWorker());
  const std::vector<StepResult> want = ResultsOf(*server, 1, golden);
  const auto client = OpenAt(ChannelTo(*server), 2);

  uint64_t sequence = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    for (const auto& [name, spoil] : Spoilers()) {
      SCOPED_TRACE(name);
      StepPlan plan = golden[0].plan;
      spoil(plan);
      client->SendPlan(2, ++sequence, plan);
      EXPECT_EQ(client->ReceiveOutcome().refusal().code(),
                grpc::StatusCode::INVALID_ARGUMENT);
    }
    client->SendPlan(2, ++sequence, golden[i].plan);
    EXPECT_EQ(*DecodeResult(client->ReceiveOutcome().result()), want[i]) << i;
  }
}

TEST(WorkerServerTest, DrainsUntilTheSchedulerLeaves) {
  const auto server = StartOrDie(SmallWorker());
  EXPECT_EQ(HealthOf(*server), Serving::SERVING);
  auto client = OpenAt(ChannelTo(*server), 1);

  EXPECT_FALSE(server->Drain(steady_clock::now() + milliseconds(10)));
  EXPECT_EQ(HealthOf(*server), Serving::NOT_SERVING);
  EXPECT_TRUE(client->ReceiveHeartbeat().draining());
  client->CloseWrites();
  client->Finish();

  EXPECT_TRUE(server->Drain(steady_clock::now() + std::chrono::seconds(30)));
}

TEST(WorkerServerTest, ADeviceThatFailsIsToldToTheSchedulerAndByHealth) {
  auto owned = std::make_unique<FaultyBackend>();
  owned->BreakAfter(/*good_steps=*/1, FaultyBackend::Fault::kError);
  WorkerServerOptions options = SmallWorker();
  std::promise<absl::Status> failure;
  options.on_failure = [&](const absl::Status& why) { failure.set_value(why); };
  const auto server = StartOn(std::move(owned), options);
  ASSERT_EQ(server.status(), absl::OkStatus());
  const auto client = OpenAt(ChannelTo(**server), 1);
  client->SendPlan(1, 1, SmallPlan());
  EXPECT_TRUE(client->ReceiveOutcome().has_result());

  client->SendPlan(1, 2, SmallPlan());
  const grpc::Status end = client->Finish();

  EXPECT_EQ(end.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(end.error_message(), HasSubstr("plan 2 of stream 1 ("));
  EXPECT_THAT(end.error_message(), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_EQ(failure.get_future().get().message(), end.error_message());
  EXPECT_EQ(HealthOf(**server), Serving::NOT_SERVING);
}

TEST(WorkerServerTest, SaysWhyItCannotStart) {
  WorkerServerOptions missing = SmallWorker();
  missing.model.name = "models/missing";
  EXPECT_FALSE(WorkerServer::Start(missing).ok());

  WorkerServerOptions remote = SmallWorker();
  remote.address = "0.0.0.0:0";
  EXPECT_EQ(WorkerServer::Start(remote).status().code(),
            absl::StatusCode::kPermissionDenied);

  const auto first = StartOrDie(SmallWorker());
  WorkerServerOptions taken = SmallWorker();
  taken.address = first->address().ToString();
  EXPECT_EQ(WorkerServer::Start(taken).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(WorkerServerTest, WithTlsItAnswersSchedulersItKnowsAndProbes) {
  const testing::TestAuthority authority("authority");
  const testing::CertifiedKey own = authority.Issue("worker.test");
  const testing::CertifiedKey scheduler = authority.Issue("scheduler.test");
  const ScopedDirectory directory;
  WorkerServerOptions options = SmallWorker();
  options.health_address = "127.0.0.1:0";
  options.tls = {.cert = directory.Write("cert.pem", own.cert),
                 .key = directory.Write("key.pem", own.key),
                 .client_ca = directory.Write("ca.pem", authority.cert())};
  const auto server = StartOrDie(options);
  const TlsClientFiles files = {
      .ca = options.tls.client_ca,
      .cert = directory.Write("scheduler.pem", scheduler.cert),
      .key = directory.Write("scheduler_key.pem", scheduler.key),
      .server_name = "worker.test"};

  const auto known = ClientCredentials::Open(files);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(DescriptionOver(known->ChannelTo(server->address().ToString(), {}))
                .model(),
            "demo");
  grpc::ClientContext context;
  wire::DescribeResponse response;
  EXPECT_EQ(wire::Worker::NewStub(ChannelTo(*server))
                ->Describe(&context, {}, &response)
                .error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(HealthOver(ChannelTo("127.0.0.1:" +
                                 std::to_string(server->health_port()))),
            Serving::SERVING);
}

}  // namespace
}  // namespace bole
