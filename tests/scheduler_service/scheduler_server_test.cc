#include "scheduler_service/scheduler_server.h"

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/scheduler_service/tiny_system.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Eventually;
using testing::OpenCall;
using testing::SimulatedService;
using testing::SimulatedWorker;
using testing::TinySystem;

constexpr char kServing[] = "1";
constexpr char kNotServing[] = "2";

v1::GenerateRequest Ask(int max_tokens) {
  v1::GenerateRequest request;
  request.set_text("q");
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  return request;
}

TEST(SchedulerServerTest, ErrorsNameTheFileOrTheAddress) {
  const TinySystem system;

  const auto no_model = SchedulerServer::Start({.models = {"none"}});
  const auto taken =
      SchedulerServer::Start({.models = {system.directory.path()},
                              .address = system.server->address().ToString()});
  const auto taken_by_metrics = SchedulerServer::Start(
      {.models = {system.directory.path()},
       .metrics_address = system.server->address().ToString()});
  const auto remote = SchedulerServer::Start(
      {.models = {system.directory.path()}, .address = "0.0.0.0:0"});

  EXPECT_NE(no_model.status().message().find("none/tokenizer.json"),
            absl::string_view::npos)
      << no_model.status();
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(taken_by_metrics.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(remote.status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(SchedulerServerTest, IsHealthyAsAProcessAndReadyWithAWorker) {
  TinySystem without({}, /*with_worker=*/false);
  TinySystem with;

  EXPECT_EQ(without.Health(""), kServing);
  EXPECT_EQ(without.Health(), kNotServing);
  EXPECT_EQ(with.Health(""), kServing);
  EXPECT_EQ(with.Health(), kServing);
}

TEST(SchedulerServerTest, ARequestSentOnceItIsReadyIsTaken) {
  for (int i = 0; i < 20; ++i) {
    TinySystem system;  // Returns when health says so.

    const grpc::Status status = OpenCall(system, Ask(1)).Finish();

    ASSERT_TRUE(status.ok()) << status.error_message();
  }
}

TEST(SchedulerServerTest, TwoModelsStandBehindOneDoor) {
  const ScopedDirectory directory;
  directory.Write("tokenizer.json", testing::TinyTokenizerJson());
  SimulatedService second(SimulatedWorker::SmallLimits(), "second");
  SchedulerServerOptions options;
  options.models = {"second=" + directory.path()};
  options.workers = {second.address()};
  TinySystem system(options);
  ASSERT_TRUE(Eventually(
      [&] { return system.server->loop().status().num_connected() == 2; }));
  const auto asked = [](const char* model) {
    v1::GenerateRequest request = Ask(5);
    request.set_model(model);
    return request;
  };

  second.Hold();
  OpenCall of_second(system, asked("second"));
  EXPECT_TRUE(OpenCall(system, asked("tiny")).Finish().ok());
  ASSERT_TRUE(system.AwaitLoad(/*running=*/1, /*waiting=*/0));
  EXPECT_EQ(system.server->loop().status().workers[0].running, 1);
  second.Release();

  EXPECT_TRUE(of_second.Finish().ok());
  EXPECT_EQ(of_second.ids.size(), 5u);
  EXPECT_EQ(OpenCall(system, asked("third")).Finish().error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(OpenCall(system, Ask(5)).Finish().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  for (const char* model : {"tiny", "second"}) {
    grpc::ClientContext context;
    v1::GetModelInfoRequest request;
    request.set_model(model);
    v1::GetModelInfoResponse info;
    EXPECT_TRUE(system.stub->GetModelInfo(&context, request, &info).ok());
    EXPECT_EQ(info.model(), model);
    EXPECT_EQ(info.has_chat_template(), info.model() == "tiny");
  }
}

TEST(SchedulerServerTest, StreamsGoOnWithAnotherWorker) {
  SimulatedService other(SimulatedWorker::SmallLimits());
  SchedulerServerOptions options;
  options.workers = {other.address()};
  TinySystem system(options);
  const auto status = [&] { return system.server->loop().status(); };
  ASSERT_TRUE(Eventually([&] { return status().num_connected() == 2; }));
  other.Hold();
  system.worker.Hold();
  OpenCall first(system, Ask(200));
  OpenCall second(system, Ask(200));
  ASSERT_TRUE(Eventually([&] {
    return status().workers[0].running == 1 && status().workers[1].running == 1;
  }));
  for (int i = 0; i < 5; ++i) other.AnswerOne();

  other.Leave();
  EXPECT_TRUE(Eventually([&] { return status().num_connected() == 1; }));
  EXPECT_EQ(system.Health(), kServing);
  system.worker.Release();

  EXPECT_TRUE(first.Finish().ok());
  EXPECT_TRUE(second.Finish().ok());
  EXPECT_EQ(second.ids.size(), 200u);
  EXPECT_EQ(second.ids, first.ids);
  v1::ListWorkersResponse info;
  grpc::ClientContext context;
  EXPECT_TRUE(
      system.admin->ListWorkers(&context, v1::ListWorkersRequest(), &info)
          .ok());
  ASSERT_EQ(info.workers_size(), 2);
  EXPECT_EQ(info.workers(0).address(), other.address());
  EXPECT_FALSE(info.workers(0).connected());
  EXPECT_TRUE(info.workers(1).connected());
  EXPECT_EQ(status().audit, "");
}

TEST(SchedulerServerTest, ARestartedSchedulerFindsCachesColdAndSaysSo) {
  SimulatedService worker(SimulatedWorker::SmallLimits());
  v1::GenerateRequest request = Ask(5);
  for (int i = 0; i < 400; ++i) {
    // Letters that no two of are one token.
    request.mutable_text()->push_back("qxz"[i * i % 7 % 3]);
  }
  for (int life = 0; life < 2; ++life) {
    Mutex mutex;
    std::vector<std::string> notes;
    SchedulerServerOptions options;
    options.workers = {worker.address()};
    options.note = [&](const std::string& what) {
      MutexLock lock(mutex);
      notes.push_back(what);
    };
    TinySystem system(options, /*with_worker=*/false);
    ASSERT_TRUE(Eventually([&] { return system.Health() == kServing; }));
    std::vector<uint32_t> cached;
    for (int i = 0; i < 2; ++i) {
      OpenCall call(system, request);
      const grpc::Status status = call.Finish();
      ASSERT_TRUE(status.ok()) << status.error_message();
      cached.push_back(call.complete.usage().cached_tokens());
    }

    EXPECT_EQ(cached[0], 0u) << life;
    EXPECT_GE(cached[1], 256u) << life;
    MutexLock lock(mutex);
    ASSERT_EQ(notes.size(), 1u) << life;
    EXPECT_EQ(notes[0], "worker " + worker.address() +
                            " is connected, its prefix cache is cold");
  }
}

TEST(SchedulerServerTest, IsNotReadyOnceTheWorkerDrains) {
  TinySystem system;
  system.worker.Drain();
  ASSERT_TRUE(OpenCall(system, Ask(20)).Finish().ok());

  EXPECT_TRUE(Eventually([&] { return system.Health() == kNotServing; }));
  EXPECT_EQ(OpenCall(system, Ask(1)).Finish().error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST(SchedulerServerTest, DrainLetsRequestsFinishAndRefusesNewOnes) {
  TinySystem system;
  system.worker.Hold();
  OpenCall running(system, Ask(10));
  ASSERT_TRUE(system.AwaitLoad(1, 0));

  auto drained = std::async(std::launch::async, [&] {
    return system.server->Drain(steady_clock::now() + seconds(60));
  });
  ASSERT_TRUE(Eventually([&] { return system.Health() == kNotServing; }));
  const grpc::Status refused = OpenCall(system, Ask(1)).Finish();
  system.worker.Release();

  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_EQ(running.ids.size(), 10u);
  EXPECT_TRUE(drained.get());
  EXPECT_EQ(system.Health(""), kServing);
}

TEST(SchedulerServerTest, ADrainThatIsTooShortSaysSo) {
  TinySystem system;
  system.worker.Hold();
  OpenCall running(system, Ask(10));
  ASSERT_TRUE(system.AwaitLoad(1, 0));

  EXPECT_FALSE(system.server->Drain(steady_clock::now() + milliseconds(50)));

  system.server->Stop();
  EXPECT_EQ(running.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(SchedulerServerTest, StopEndsADrain) {
  TinySystem system;
  system.worker.Hold();
  OpenCall running(system, Ask(10));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  const auto start = steady_clock::now();
  std::thread drain(
      [&] { system.server->Drain(steady_clock::time_point::max()); });

  system.server->Stop();

  drain.join();
  EXPECT_LT(steady_clock::now() - start, seconds(20));
  EXPECT_EQ(running.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(SchedulerServerTest, ADrainAfterStopReturnsAtOnce) {
  TinySystem system;
  system.server->Stop();
  system.server->Stop();

  EXPECT_TRUE(system.server->Drain(steady_clock::time_point::max()));
}

TEST(SchedulerServerTest, MetricsAreServedIfTheyAreAskedFor) {
  const TinySystem without;
  SchedulerServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  const TinySystem with(options);

  EXPECT_EQ(without.server->metrics_port(), 0);
  EXPECT_GT(with.server->metrics_port(), 0);
}

}  // namespace
}  // namespace bole
