#include "tests/simulation/simulated_server.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "scheduler_service/grpc_worker_client.h"
#include "scheduler_service/worker_client.h"
#include "tests/scheduler_service/fake_worker.h"
#include "tests/scheduler_service/scripted_connection.h"

namespace bole::simulation {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWorkerTimeout(150);

SimulatedServerOptions Options(const std::vector<std::string>& faults) {
  SimulatedServerOptions options;
  options.model = "demo";
  options.heartbeat_interval = milliseconds(10);
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

// The scheduler's side of a connection to a simulated worker.
struct Connection {
  explicit Connection(const std::vector<std::string>& faults) {
    auto started = SimulatedServer::Start(Options(faults));
    BOLE_CHECK(started.ok());
    server = *std::move(started);
    GrpcWorkerClientOptions options =
        testing::OptionsFor(server->address().ToString());
    options.worker_timeout = kWorkerTimeout;
    client = std::make_unique<GrpcWorkerClient>(
        options, [this](WorkerEvent event) { log.Add(std::move(event)); });
    auto first = log.NextAs<WorkerConnected>();
    BOLE_CHECK(first.has_value());
    connected = *std::move(first);
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
    client->Send(connected.epoch, number, plan);
  }

  testing::EventLog log;
  std::unique_ptr<SimulatedServer> server;
  std::unique_ptr<GrpcWorkerClient> client;
  WorkerConnected connected;
};

TEST(SimulatedServerTest, DescribesItselfAndAnswersPlans) {
  Connection connection({});
  const WorkerDescription& worker = connection.connected.description;
  EXPECT_EQ(worker.model, "demo");
  EXPECT_EQ(worker.device, "simulated");
  EXPECT_TRUE(worker.has_drafter);
  EXPECT_EQ(worker.temperature, 0);

  connection.Send(1);

  const auto outcome = connection.log.NextAs<WorkerOutcome>();
  ASSERT_TRUE(outcome && outcome->result.ok());
  EXPECT_EQ(outcome->sequence, 1u);
  const std::vector<int32_t> prompt = {4, 5, 6};
  const SequenceResult& result = outcome->result->prefills[0];
  EXPECT_EQ(result.committed, 3);
  EXPECT_EQ(result.emitted[0].token,
            ExpectedOutput(Options({}).runner.engine.text, prompt, {}, 1)[0]);
  EXPECT_EQ(result.proposal->size(), 1 + 2 + 2 * 4);
}

TEST(SimulatedServerTest, AHangingWorkerSendsHeartbeatsAndNothingElse) {
  Connection connection({"hang@2"});
  connection.Send(1);
  ASSERT_TRUE(connection.log.NextAs<WorkerOutcome>());

  connection.Send(2);

  // Without heartbeats it would be lost by then.
  EXPECT_FALSE(connection.log.Next(2 * kWorkerTimeout).has_value());
  connection.server->Stop();
  EXPECT_TRUE(connection.log.NextAs<WorkerLost>());
}

TEST(SimulatedServerTest, GarbageArrives) {
  Connection connection({"garbage=committed@2", "garbage=token@3"});
  for (int number = 1; number <= 4; ++number) connection.Send(number);

  std::vector<SequenceResult> results;
  for (int i = 0; i < 4; ++i) {
    const auto outcome = connection.log.NextAs<WorkerOutcome>();
    ASSERT_TRUE(outcome && outcome->result.ok());
    results.push_back(outcome->result->prefills.at(0));
  }
  EXPECT_EQ(results[3], results[0]);
  EXPECT_GT(results[1].committed, 200);
  EXPECT_GE(results[2].emitted[0].token, 100);
}

TEST(SimulatedServerTest, AWrongNumberArrives) {
  Connection connection({"garbage=number@2"});
  for (int number = 1; number <= 3; ++number) connection.Send(number);

  std::vector<uint64_t> numbers;
  for (int i = 0; i < 3; ++i) {
    const auto outcome = connection.log.NextAs<WorkerOutcome>();
    ASSERT_TRUE(outcome && outcome->result.ok());
    numbers.push_back(outcome->sequence);
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
