// A scheduler and bole-sim-worker as processes, and clients that know what to
// expect.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "proto/bole.grpc.pb.h"
#include "proto/health.grpc.pb.h"
#include "tests/e2e/call.h"
#include "tests/simulation/child_process.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/simulated_model.h"
#include "tests/simulation/simulated_text.h"
#include "tests/testing/random_tree.h"

namespace bole::simulation {
namespace {

using e2e::Generation;
using testing::UniformInt;

constexpr char kModel[] = "models/demo";

TextOptions Text() {
  const auto model = LoadSimulatedModel(kModel);
  BOLE_CHECK(model.ok());
  TextOptions text;
  text.alphabet = model->alphabet;
  text.stop_tokens = model->stop_tokens;
  return text;
}

std::vector<std::string> With(std::vector<std::string> command,
                              const std::vector<std::string>& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Returns once the scheduler serves, or after 20 s. It looks every millisecond:
// nothing announces the change.
void AwaitServing(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("bole.v1.BoleService");
  grpc::health::v1::HealthCheckResponse response;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    grpc::ClientContext context;
    const bool answered = stub->Check(&context, request, &response).ok();
    if (answered && response.status() == response.SERVING) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "the scheduler does not serve";
}

struct Services {
  explicit Services(const std::vector<std::string>& worker_flags,
                    const std::vector<std::string>& scheduler_flags = {})
      : worker(With({"tests/simulation/bole-sim-worker", "--model", kModel,
                     "--listen", "127.0.0.1:0"},
                    worker_flags)),
        scheduler(With({"scheduler_service/bole-scheduler", "--model", kModel,
                        "--allow-synthetic", "--listen", "127.0.0.1:0",
                        "--worker", worker.address()},
                       scheduler_flags)),
        channel(grpc::CreateChannel(scheduler.address(),
                                    grpc::InsecureChannelCredentials())),
        stub(v1::BoleService::NewStub(channel)) {
    AwaitServing(channel);
  }

  ChildProcess worker;
  ChildProcess scheduler;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::BoleService::Stub> stub;
};

// A request, and what it must come to.
struct Asked {
  v1::GenerateRequest request;
  std::vector<int32_t> want;
};

Asked AskAtRandom(const TextOptions& text, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<int32_t> prompt(UniformInt(rng, 1, 300));
  for (int32_t& token : prompt) token = UniformInt(rng, 0, 8000);
  SamplingParams sampling;
  Asked asked;
  v1::SamplingParams& wire = *asked.request.mutable_sampling_params();
  sampling.temperature = 0.5f * static_cast<float>(UniformInt(rng, 0, 2));
  wire.set_temperature(sampling.temperature);
  sampling.seed = seed;
  wire.set_seed(sampling.seed);
  if (UniformInt(rng, 0, 1) == 1) {
    sampling.top_k = UniformInt(rng, 1, 50);
    wire.set_top_k(sampling.top_k);
  }
  if (UniformInt(rng, 0, 1) == 1) {
    sampling.frequency_penalty = 0.5f;
    wire.set_frequency_penalty(sampling.frequency_penalty);
    sampling.logit_bias = {{17, 2.0f}};
    (*wire.mutable_logit_bias())[17] = 2.0f;
  }
  const int num_tokens = UniformInt(rng, 1, 120);
  wire.set_max_tokens(num_tokens);
  asked.request.mutable_token_ids()->mutable_ids()->Add(prompt.begin(),
                                                        prompt.end());
  asked.want =
      ExpectedOutput(text, prompt, sampling, num_tokens, text.stop_tokens);
  return asked;
}

// Asks `count` requests, 20 at a time. Returns how many have their text.
int CountRight(v1::BoleService::Stub& stub, const TextOptions& text,
               int count) {
  std::atomic<uint32_t> next = 0;
  std::atomic<int> right = 0;
  std::vector<std::thread> clients;
  clients.reserve(20);
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back([&] {
      for (uint32_t seed = ++next; seed <= static_cast<uint32_t>(count);
           seed = ++next) {
        const Asked asked = AskAtRandom(text, seed);
        const Generation got = e2e::Generate(stub, asked.request);
        const bool is_right = got.status.ok() && got.ids() == asked.want;
        EXPECT_TRUE(is_right)
            << "seed " << seed << ": " << got.status.error_message();
        right += is_right ? 1 : 0;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  return right;
}

TEST(SimWorkerTest, TwoHundredRequestsHaveTheirTexts) {
  // Pages for half of the requests that run, so that some are preempted.
  Services services({"--max-requests", "16", "--pages", "100", "--page-size",
                     "16", "--context", "600", "--stop-probability", "0.01"},
                    {"--nodes", "12"});
  TextOptions text = Text();
  text.stop_probability = 0.01;

  EXPECT_EQ(CountRight(*services.stub, text, 200), 200);

  services.scheduler.Terminate();
  EXPECT_EQ(services.scheduler.Wait(), 0);
  services.worker.Terminate();
  EXPECT_EQ(services.worker.Wait(), 0);
}

TEST(SimWorkerTest, ACrashEndsTheProcess) {
  Services services({"--fault", "crash@5"}, {"--drain-seconds", "0"});
  v1::GenerateRequest request = e2e::GreedyRequest("a b c", 500);

  e2e::Call call(*services.stub, request);

  EXPECT_EQ(services.worker.Wait(), kCrashExitCode);
  services.scheduler.Terminate();
  EXPECT_NE(call.Finish().status.error_code(), grpc::StatusCode::OK);
}

TEST(SimWorkerTest, StepsTakeWhatTheTableSays) {
  // 4.2 ms a token of plain decoding, and as much for the prompt, at a tenth of
  // the speed.
  Services services(
      {"--costs", "tests/simulation/costs/h200_9b.json", "--speed", "0.1"},
      {"--speculation", "off"});
  const auto start = std::chrono::steady_clock::now();

  const Generation got =
      e2e::Generate(*services.stub, e2e::GreedyRequest("a b c", 10));

  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(420));
}

}  // namespace
}  // namespace bole::simulation
