#include "tests/simulation/simulated_server.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/step.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "proto/protocol_version.h"
#include "proto/step_codec.h"
#include "proto/worker.grpc.pb.h"

namespace bole::simulation {
namespace {

namespace wire = worker::v1;

SimulatedServerOptions Options(const std::vector<std::string>& faults) {
  SimulatedServerOptions options;
  options.model = "demo";
  options.heartbeat_interval = std::chrono::milliseconds(5);
  options.runner.engine.limits = {.max_requests = 2,
                                  .max_nodes = 32,
                                  .max_nodes_per_tree = 16,
                                  .max_prefill_tokens = 64,
                                  .max_draft = {.top_k = 2, .depth = 3},
                                  .num_slots = 2,
                                  .num_pages = 8,
                                  .page_size = 64,
                                  .max_context = 200,
                                  .vocabulary = 100,
                                  .max_lease_rounds = 1};
  options.runner.engine.text.alphabet = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const std::string& fault : faults) {
    options.runner.faults.push_back(*ParseFault(fault));
  }
  return options;
}

// What a scheduler sees of a simulated worker, unchecked.
class Connection {
 public:
  explicit Connection(const std::vector<std::string>& faults) {
    auto started = SimulatedServer::Start(Options(faults));
    BOLE_CHECK(started.ok());
    server_ = *std::move(started);
    stub_ = wire::Worker::NewStub(grpc::CreateChannel(
        server_->address().ToString(), grpc::InsecureChannelCredentials()));
    stream_ = stub_->Execute(&context_);
    wire::ExecuteRequest request;
    request.set_epoch(1);
    request.mutable_scheduler()->set_instance(1);
    request.mutable_scheduler()->set_protocol_version(kProtocolVersion);
    stream_->Write(request);
  }
  ~Connection() { context_.TryCancel(); }

  wire::DescribeResponse Describe() {
    grpc::ClientContext context;
    wire::DescribeResponse response;
    EXPECT_TRUE(stub_->Describe(&context, {}, &response).ok());
    return response;
  }

  // A prompt of three tokens.
  void Send(uint64_t number) {
    StepPlan plan;
    plan.draft = DraftShape{.top_k = 2, .depth = 3};
    PrefillPlan& chunk = plan.prefills.emplace_back();
    chunk.sequence.pages = {PageId(0)};
    chunk.sequence.prompt_length = 3;
    chunk.sequence.max_new_tokens = 50;
    chunk.tokens = {4, 5, 6};
    wire::ExecuteRequest request;
    request.set_epoch(1);
    request.set_sequence(number);
    EncodePlan(plan, *request.mutable_plan());
    stream_->Write(request);
  }

  // False at the end of the stream.
  bool Read(wire::ExecuteResponse& response) {
    return stream_->Read(&response);
  }

  // The next outcome, whatever comes before.
  wire::StepOutcome ReadOutcome() {
    wire::ExecuteResponse response;
    while (Read(response)) {
      if (response.has_outcome()) return response.outcome();
    }
    ADD_FAILURE() << "the stream ended";
    return {};
  }

  SimulatedServer& server() { return *server_; }

 private:
  std::unique_ptr<SimulatedServer> server_;
  std::unique_ptr<wire::Worker::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<wire::ExecuteRequest, wire::ExecuteResponse>>
      stream_;
};

// What became of the one chunk.
SequenceResult ChunkOf(const wire::StepOutcome& outcome) {
  const absl::StatusOr<StepResult> result = DecodeResult(outcome.result());
  BOLE_CHECK(result.ok() && result->prefills.size() == 1);
  return result->prefills[0];
}

TEST(SimulatedServerTest, DescribesItselfAndAnswersPlans) {
  Connection connection({});
  const wire::DescribeResponse worker = connection.Describe();
  EXPECT_EQ(worker.model(), "demo");
  EXPECT_EQ(worker.device(), "simulated");
  EXPECT_TRUE(worker.has_drafter());
  EXPECT_TRUE(worker.synthetic());
  EXPECT_EQ(worker.fingerprint().weights(), "");
  EXPECT_EQ(worker.defaults().temperature(), 0);

  connection.Send(1);

  const wire::StepOutcome outcome = connection.ReadOutcome();
  EXPECT_EQ(outcome.sequence(), 1u);
  const SequenceResult result = ChunkOf(outcome);
  EXPECT_EQ(result.committed, 3);
  const std::vector<int32_t> prompt = {4, 5, 6};
  ASSERT_EQ(result.emitted.size(), 1u);
  EXPECT_EQ(result.emitted[0].token,
            ExpectedOutput(Options({}).runner.engine.text, prompt, {}, 1)[0]);
  ASSERT_TRUE(result.proposal);
  EXPECT_EQ(result.proposal->size(), 1 + 2 + 2 * 4);
}

TEST(SimulatedServerTest, AHangingWorkerSendsHeartbeatsAndNothingElse) {
  Connection connection({"hang@2"});
  connection.Send(1);
  connection.ReadOutcome();

  connection.Send(2);

  wire::ExecuteResponse response;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(connection.Read(response));
    EXPECT_TRUE(response.has_heartbeat());
    EXPECT_EQ(response.heartbeat().last_sequence(), 1u);
  }
  std::thread stopper([&] { connection.server().Stop(); });
  while (connection.Read(response)) EXPECT_TRUE(response.has_heartbeat());
  stopper.join();
}

TEST(SimulatedServerTest, GarbageArrives) {
  Connection connection({"garbage=committed@2", "garbage=token@3"});
  std::vector<SequenceResult> results;
  for (int number = 1; number <= 4; ++number) {
    connection.Send(number);
    results.push_back(ChunkOf(connection.ReadOutcome()));
  }

  EXPECT_EQ(results[0].committed, 3);
  EXPECT_GT(results[1].committed, 200);
  ASSERT_EQ(results[2].emitted.size(), 1u);
  EXPECT_GE(results[2].emitted[0].token, 100);
  EXPECT_EQ(results[3], results[0]);
}

TEST(SimulatedServerTest, AWrongNumberArrives) {
  Connection connection({"garbage=number@2"});
  std::vector<uint64_t> numbers;
  for (int number = 1; number <= 3; ++number) {
    connection.Send(number);
    numbers.push_back(connection.ReadOutcome().sequence());
  }

  EXPECT_EQ(numbers[0], 1u);
  EXPECT_GT(numbers[1], 2u);
  EXPECT_EQ(numbers[2], 3u);
}

TEST(SimulatedServerTest, OptionsThatContradictEachOtherAreRefused) {
  SimulatedServerOptions options = Options({});
  options.runner.engine.text.alphabet.clear();
  EXPECT_EQ(SimulatedServer::Start(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bole::simulation
