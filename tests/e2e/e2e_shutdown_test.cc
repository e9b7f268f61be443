// Services that leave: drains, stops, and workers that are lost under a stream.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "scheduler_service/watch/scheduler_status.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr char kPrompt[] = "def fibonacci(n):\n";
constexpr int kTokens = 300;
constexpr int kForever = 8000;

// Rounds of one token, so that a stream has a middle.
SystemOptions Plain() {
  SystemOptions options;
  options.scheduler.speculation.mode = SpeculationMode::kOff;
  return options;
}

// A request in mid-stream, and what it must come to.
class Stream {
 public:
  explicit Stream(System& system, int max_tokens = kTokens,
                  const std::string& prompt = kPrompt)
      : want_(Generate(system.stub(), GreedyRequest(prompt, max_tokens))),
        call_(system.stub(), GreedyRequest(prompt, max_tokens)) {
    ReadSome();
  }

  void ReadSome() {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(call_.Read());
  }

  void ExpectWhole() {
    const Generation& got = call_.Finish();
    ASSERT_TRUE(got.status.ok()) << got.status.error_message();
    EXPECT_EQ(got.ids(), want_.ids());
    EXPECT_EQ(got.text(), want_.text());
  }

  // What came is the start of what was to come.
  void ExpectBroken(grpc::StatusCode code) {
    const Generation& got = call_.Finish();
    EXPECT_EQ(got.status.error_code(), code) << got.status.error_message();
    const std::vector<int32_t> ids = got.ids();
    const std::vector<int32_t> all = want_.ids();
    ASSERT_LE(ids.size(), all.size());
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all.begin()));
  }

 private:
  const Generation want_;
  Call call_;
};

TEST(E2eDrainTest, StreamsFinishAndNewRequestsAreRefused) {
  SystemOptions options = Plain();
  options.scheduler.max_running = 1;
  System system(options);
  Stream running(system);
  Call queued(system.stub(), GreedyRequest(kPrompt, 10));
  ASSERT_TRUE(system.WaitForLoad(1, 1));

  auto drained = std::async(std::launch::async, [&] {
    return system.scheduler().Drain(steady_clock::now() + seconds(60));
  });
  EXPECT_TRUE(Eventually([&] {
    return Generate(system.stub(), GreedyRequest(kPrompt, 1))
               .status.error_code() == grpc::StatusCode::UNAVAILABLE;
  }));

  running.ExpectWhole();
  EXPECT_TRUE(queued.Finish().status.ok());
  EXPECT_TRUE(drained.get());
  system.ExpectIdle();
}

constexpr int kSlowTokens = 120;

// A call whose client reads nothing until it finishes, and whose text does not
// fit into the windows of its connection.
struct SlowCall {
  explicit SlowCall(System& system) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
    stub = v1::BoleService::NewStub(system.NewChannel(arguments));
    v1::GenerateRequest request = GreedyRequest(kPrompt, kSlowTokens);
    request.mutable_sampling_params()->set_logprobs(20);
    call = std::make_unique<Call>(*stub, request);
    EXPECT_TRUE(system.WaitForLoad(1, 0));
    EXPECT_TRUE(system.WaitForLoad(0, 0));
  }

  std::unique_ptr<v1::BoleService::Stub> stub;
  std::unique_ptr<Call> call;
};

TEST(E2eDrainTest, AFinishedTextIsDeliveredToASlowReader) {
  System system;
  SlowCall slow(system);

  // This is what the program does after SIGTERM.
  auto ended = std::async(std::launch::async, [&] {
    const bool drained =
        system.scheduler().Drain(steady_clock::now() + seconds(60));
    system.scheduler().Stop();
    return drained;
  });
  EXPECT_EQ(ended.wait_for(milliseconds(1200)), std::future_status::timeout);
  const Generation& got = slow.call->Finish();

  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.ids().size(), kSlowTokens);
  EXPECT_TRUE(ended.get());
}

TEST(E2eDrainTest, ASlowReaderDelaysADrainUntilItsDeadlineAtMost) {
  System system;
  SlowCall slow(system);
  const auto start = steady_clock::now();

  EXPECT_FALSE(system.scheduler().Drain(start + milliseconds(200)));

  EXPECT_GE(steady_clock::now() - start, milliseconds(200));
  EXPECT_LT(steady_clock::now() - start, seconds(20));
}

TEST(E2eDrainTest, StopEndsTheWaitForASlowReader) {
  System system;
  SlowCall slow(system);
  auto drained = std::async(std::launch::async, [&] {
    return system.scheduler().Drain(steady_clock::now() + seconds(600));
  });
  EXPECT_TRUE(Eventually([&] {
    return Generate(system.stub(), GreedyRequest(kPrompt, 1))
               .status.error_code() == grpc::StatusCode::UNAVAILABLE;
  }));

  // This is what the program does at the second signal.
  system.scheduler().Stop();

  EXPECT_FALSE(drained.get());
  EXPECT_FALSE(slow.call->Finish().status.ok());
}

TEST(E2eDrainTest, AnIdleServerDrainsAtOnce) {
  System system(Plain());
  const auto start = steady_clock::now();

  EXPECT_TRUE(system.scheduler().Drain(start + seconds(60)));

  EXPECT_LT(steady_clock::now() - start, seconds(5));
}

TEST(E2eDrainTest, AStreamThatOutlivesTheDeadlineIsUnavailable) {
  System system(Plain());
  Call call(system.stub(), GreedyRequest(kPrompt, kForever));
  ASSERT_TRUE(call.Read());

  const bool drained =
      system.scheduler().Drain(steady_clock::now() + milliseconds(200));
  EXPECT_TRUE(call.Read()) << "the deadline of a drain ends nothing";
  auto stopped =
      std::async(std::launch::async, [&] { system.scheduler().Stop(); });
  const Generation& got = call.Finish();
  stopped.get();

  EXPECT_FALSE(drained);
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << got.status.error_message();
}

TEST(E2eDrainTest, AWorkerLeavesWhenItsStreamsHaveFinished) {
  System system(Plain());
  Stream stream(system);

  auto drained = std::async(std::launch::async, [&] {
    return system.worker().Drain(steady_clock::now() + seconds(60));
  });

  stream.ExpectWhole();
  EXPECT_TRUE(drained.get());
  system.ExpectIdle();
}

TEST(E2eWorkerLostTest, AStreamGoesOnWhenTheLineComesBack) {
  System system(Plain());
  Stream stream(system);
  const uint64_t epoch = system.loop().status().workers[0].epoch;

  system.worker_line().Cut();

  stream.ExpectWhole();
  EXPECT_GT(system.loop().status().workers[0].epoch, epoch);
  system.ExpectIdle();
}

TEST(E2eWorkerLostTest, AStreamGoesOnWithSpeculationToo) {
  System system;
  Stream stream(system);

  system.worker_line().Cut();

  stream.ExpectWhole();
  system.ExpectIdle();
}

TEST(E2eWorkerLostTest, AStreamGoesOnWithAnotherWorker) {
  System system(Plain());
  Stream stream(system);

  system.StopWorker();
  EXPECT_TRUE(Eventually([&] { return !system.loop().status().connected(); }));
  system.StartWorker();

  stream.ExpectWhole();
  system.ExpectIdle();
}

TEST(E2eWorkerLostTest, AWorkerThatHangsIsLostAfterItsTimeout) {
  SystemOptions options = Plain();
  options.heartbeat_interval = milliseconds(100);
  options.worker_timeout = milliseconds(1000);
  System system(options);
  Stream stream(system);
  const uint64_t epoch = system.loop().status().workers[0].epoch;

  system.worker_line().Freeze();

  stream.ExpectWhole();
  EXPECT_GT(system.loop().status().workers[0].epoch, epoch);
  system.ExpectIdle();
}

TEST(E2eWorkerLostTest, ARequestUnderWhichTwoWorkersAreLostIsUnavailable) {
  System system(Plain());
  // It takes long to be prefilled again, and has no new token until then.
  std::string prompt;
  for (int i = 0; i < 400; ++i) prompt += kPrompt;
  Stream stream(system, kTokens, prompt);
  const int lines = system.worker_line().num_connections();

  system.worker_line().Cut();
  EXPECT_TRUE(Eventually(
      [&] { return system.worker_line().num_connections() > lines; }));
  EXPECT_TRUE(system.WaitForLoad(1, 0));
  system.worker_line().Cut();

  stream.ExpectBroken(grpc::StatusCode::UNAVAILABLE);
  system.ExpectIdle();
}

TEST(E2eWorkerLostTest, WithoutAWorkerRequestsAreUnavailableAfterAWhile) {
  SystemOptions options = Plain();
  options.scheduler.reconnect_grace = milliseconds(300);
  System system(options);
  Stream stream(system);

  system.StopWorker();

  stream.ExpectBroken(grpc::StatusCode::UNAVAILABLE);
  system.ExpectIdle();
  EXPECT_EQ(
      Generate(system.stub(), GreedyRequest(kPrompt, 1)).status.error_code(),
      grpc::StatusCode::UNAVAILABLE);

  system.StartWorker();

  EXPECT_TRUE(Eventually([&] {
    return Generate(system.stub(), GreedyRequest(kPrompt, 1)).status.ok();
  }));
  system.ExpectIdle();
}

TEST(E2eTwoSchedulersTest, TheSecondSaysWhoHasTheWorkerAndThenFollows) {
  System system(Plain());
  SchedulerServerOptions options;
  options.models = {"models/demo"};
  options.workers = {system.worker().address().ToString()};

  const auto second = SchedulerServer::Start(options);

  ASSERT_TRUE(second.ok()) << second.status();
  const auto worker = [&] {
    const SchedulerStatus status = (*second)->loop().status();
    return status.workers.empty() ? WorkerStatus() : status.workers[0];
  };
  // "the worker obeys scheduler HOST:PORT (instance ...".
  const std::string port =
      ":" + std::to_string(system.scheduler().address().port) + " (instance";
  EXPECT_TRUE(Eventually([&] {
    return worker().last_error.find(port) != std::string::npos;
  })) << worker().last_error;
  system.scheduler().Stop();
  EXPECT_TRUE(Eventually([&] { return worker().connected; }));
}

}  // namespace
}  // namespace bole::e2e
