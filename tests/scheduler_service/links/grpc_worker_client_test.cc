#include "scheduler_service/links/grpc_worker_client.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/links/scripted_connection.h"

namespace bole {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Connection;
using testing::EventLog;
using testing::FakeExecute;
using testing::FakeWorker;
using testing::Idle;
using testing::OptionsFor;
using testing::TinyWorker;

TEST(GrpcWorkerClientTest, ALostStreamIsReportedAndMadeAgainWithAHigherEpoch) {
  std::atomic<int> calls = 0;
  Connection connection([&](FakeExecute& call) {
    call.Open();
    if (++calls == 1) return grpc::Status(grpc::INTERNAL, "out of order");
    call.AwaitClient();
    return grpc::Status::OK;
  });

  const auto first = connection.log.NextAs<WorkerConnected>();
  const auto lost = connection.log.NextAs<WorkerLost>();
  const auto second = connection.log.NextAs<WorkerConnected>();

  ASSERT_TRUE(first && lost && second);
  EXPECT_EQ(lost->epoch, first->epoch);
  EXPECT_EQ(lost->why, absl::InternalError("out of order"));
  EXPECT_GT(second->epoch, first->epoch);
}

TEST(GrpcWorkerClientTest, AnEndThatWasAskedForIsTold) {
  Connection connection(Idle);
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);

  connection.client->Close(connected->epoch);

  const auto closed = connection.log.NextAs<WorkerLost>();
  ASSERT_TRUE(closed);
  EXPECT_TRUE(closed->closed);
  const auto again = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(again);
  connection.client->Disconnect(again->epoch, absl::InternalError("wrong"));
  const auto lost = connection.log.NextAs<WorkerLost>();
  ASSERT_TRUE(lost);
  EXPECT_FALSE(lost->closed);
}

TEST(GrpcWorkerClientTest, OneThatLooksConnectsWhenItIsToldToAndOnce) {
  Mutex mutex;
  CondVar changed;
  int looks = 0;
  const auto await_looks = [&](int more) {
    const auto end = steady_clock::now() + seconds(20);
    MutexLock lock(mutex);
    const int want = looks + more;
    while (looks < want && changed.WaitUntil(mutex, end)) continue;
    return looks >= want;
  };
  Connection connection(Idle, [&](GrpcWorkerClientOptions& options) {
    options.look_interval = milliseconds(1);
    options.on_look = [&](const absl::StatusOr<WorkerDescription>& worker) {
      EXPECT_TRUE(worker.ok() && worker->model == TinyWorker().model);
      MutexLock lock(mutex);
      ++looks;
      changed.NotifyAll();
    };
  });
  ASSERT_TRUE(await_looks(3));
  EXPECT_EQ(connection.worker.num_calls(), 0);

  connection.client->Connect();

  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);
  connection.client->Close(connected->epoch);
  ASSERT_TRUE(connection.log.NextAs<WorkerLost>());
  ASSERT_TRUE(await_looks(3));
  EXPECT_EQ(connection.worker.num_calls(), 1);
}

TEST(GrpcWorkerClientTest, ASilentWorkerIsLost) {
  Connection connection(
      Idle, [](auto& options) { options.worker_timeout = milliseconds(200); });
  ASSERT_TRUE(connection.log.NextAs<WorkerConnected>());

  const auto lost = connection.log.NextAs<WorkerLost>();

  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->why.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(lost->why.message().find("200 ms"), absl::string_view::npos);
}

TEST(GrpcWorkerClientTest, AWorkerThatNeverOpensIsLost) {
  Connection connection(
      [](FakeExecute& call) {
        call.AwaitClient();
        return grpc::Status::OK;
      },
      [](auto& options) { options.worker_timeout = milliseconds(200); });

  const auto lost = connection.log.NextAs<WorkerLost>();

  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->why.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(GrpcWorkerClientTest, HeartbeatsKeepAWorkerThatComputesForLong) {
  std::promise<void> waited;
  Connection connection(
      [&](FakeExecute& call) {
        call.Open();
        // For twice as long as a silent worker would have.
        const auto end = steady_clock::now() + seconds(2);
        while (steady_clock::now() < end && !call.cancelled()) {
          call.Beat();
          std::this_thread::sleep_for(milliseconds(20));
        }
        waited.set_value();
        call.AwaitClient();
        return grpc::Status::OK;
      },
      [](auto& options) { options.worker_timeout = seconds(1); });
  ASSERT_TRUE(connection.log.NextAs<WorkerConnected>());

  waited.get_future().wait();

  EXPECT_FALSE(connection.log.Next(milliseconds(0)));
}

TEST(GrpcWorkerClientTest, AWorkerThatObeysAnotherSchedulerIsAskedAgain) {
  std::atomic<int> calls = 0;
  Connection connection([&](FakeExecute& call) {
    if (++calls < 3) {
      return grpc::Status(grpc::UNAVAILABLE, "the worker obeys scheduler b:2");
    }
    return Idle(call);
  });

  for (int refused = 0; refused < 2; ++refused) {
    const auto lost = connection.log.NextAs<WorkerLost>();
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->why,
              absl::UnavailableError("the worker obeys scheduler b:2"));
  }
  EXPECT_TRUE(connection.log.NextAs<WorkerConnected>());
}

TEST(GrpcWorkerClientTest, AWorkerThatWasTakenOverIsNotTakenBackAtOnce) {
  Connection connection([](FakeExecute& call) {
    call.Open();
    return grpc::Status(grpc::ABORTED, "another scheduler");
  });
  ASSERT_TRUE(connection.log.NextAs<WorkerConnected>());
  const auto lost = connection.log.NextAs<WorkerLost>();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->why.code(), absl::StatusCode::kAborted);

  EXPECT_FALSE(connection.log.Next(milliseconds(200)));
  EXPECT_EQ(connection.worker.num_calls(), 1);
}

TEST(GrpcWorkerClientTest, CloseLetsTheWorkerReadEverythingThatWasSent) {
  std::promise<int> plans_read;
  Connection connection([&](FakeExecute& call) {
    call.Open();
    worker::v1::ExecuteRequest request;
    int plans = 0;
    while (call.Read(request)) ++plans;
    if (!call.cancelled()) plans_read.set_value(plans);
    return grpc::Status::OK;
  });
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);

  for (int i = 1; i <= 20; ++i) {
    connection.client->Send(connected->epoch, i, StepPlan(), {});
  }
  connection.client->Close(connected->epoch);
  connection.client->Send(connected->epoch, 21, StepPlan(), {});  // Too late.

  EXPECT_EQ(plans_read.get_future().get(), 20);
  const auto lost = connection.log.NextAs<WorkerLost>();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->why.code(), absl::StatusCode::kUnavailable);
}

TEST(GrpcWorkerClientTest, NobodyListeningIsReportedAndDestructionDoesNotWait) {
  std::string address;
  { address = FakeWorker(TinyWorker(), Idle).address(); }
  EventLog log;
  GrpcWorkerClientOptions options = OptionsFor(address);
  options.min_backoff = hours(1);
  auto client = std::make_unique<GrpcWorkerClient>(
      options, [&](WorkerNews event) { log.Add(std::move(event)); });

  const auto lost = log.NextAs<WorkerLost>();
  const auto start = steady_clock::now();
  client.reset();

  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->why.code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

TEST(GrpcWorkerClientTest, DestructionEndsAConnectionWithWhatIsOnItsWay) {
  Connection connection(Idle);
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);
  for (int i = 1; i <= 1000; ++i) {
    connection.client->Send(connected->epoch, i, StepPlan(), {});
  }

  const auto start = steady_clock::now();
  connection.client.reset();

  EXPECT_LT(steady_clock::now() - start, seconds(10));
  EXPECT_TRUE(connection.log.NextAs<WorkerLost>());
  EXPECT_FALSE(connection.log.Next(milliseconds(0)));
}

}  // namespace
}  // namespace bole
