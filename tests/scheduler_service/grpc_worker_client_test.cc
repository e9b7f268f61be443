#include "scheduler_service/grpc_worker_client.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/fake_worker.h"
#include "tests/scheduler_service/served_model.h"
#include "tests/testing/random_step.h"

namespace bole {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::EventLog;
using testing::FakeExecute;
using testing::FakeWorker;
using testing::TinyWorker;

// Opens, and waits for the client to end the call.
grpc::Status Idle(FakeExecute& call) {
  call.Open();
  call.AwaitClient();
  return grpc::Status::OK;
}

// Patient when it waits for the worker, impatient between attempts.
GrpcWorkerClientOptions OptionsFor(const std::string& address) {
  return {.address = address,
          .worker_timeout = seconds(20),
          .min_backoff = milliseconds(1),
          .max_backoff = milliseconds(4),
          .taken_over_backoff = hours(1)};
}

// A client of a worker, and what it reports. Members go in reverse order.
struct Connection {
  explicit Connection(FakeWorker::Script script)
      : Connection(std::move(script), [](auto&) {}) {}
  Connection(FakeWorker::Script script,
             const std::function<void(GrpcWorkerClientOptions&)>& adjust,
             const WorkerDescription& description = TinyWorker())
      : worker(description, std::move(script)) {
    GrpcWorkerClientOptions options = OptionsFor(worker.address());
    adjust(options);
    client = std::make_unique<GrpcWorkerClient>(
        options, [this](WorkerEvent event) { log.Add(std::move(event)); });
  }

  EventLog log;
  FakeWorker worker;
  std::unique_ptr<GrpcWorkerClient> client;
};

uint64_t MicrosecondsNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TEST(GrpcWorkerClientTest, ReportsWhatTheWorkerSaysOfItself) {
  const uint64_t before = MicrosecondsNow();
  WorkerDescription description = TinyWorker();
  description.device = "cpu, 2 threads";
  description.version = "9";
  description.has_drafter = true;
  Connection connection(
      Idle, [](auto&) {}, description);

  const auto connected = connection.log.NextAs<WorkerConnected>();

  ASSERT_TRUE(connected);
  EXPECT_GE(connected->epoch, before);
  EXPECT_LE(connected->epoch, MicrosecondsNow());
  const WorkerDescription& got = connected->description;
  EXPECT_EQ(got.model, "tiny");
  EXPECT_EQ(got.device, "cpu, 2 threads");
  EXPECT_EQ(got.version, "9");
  EXPECT_TRUE(got.has_drafter);
  EXPECT_EQ(got.limits.max_context, 100);
  EXPECT_EQ(got.limits.vocabulary, 303);
  EXPECT_EQ(got.stop_tokens, description.stop_tokens);
  EXPECT_EQ(got.temperature, description.temperature);
  EXPECT_EQ(got.top_k, description.top_k);
  EXPECT_EQ(got.top_p, description.top_p);
}

TEST(GrpcWorkerClientTest, PlansArriveInOrderAndResultsComeBack) {
  constexpr int kPlans = 50;
  std::mt19937 rng(3);
  std::vector<StepPlan> plans;
  std::vector<StepResult> results;
  for (int i = 0; i < kPlans; ++i) {
    plans.push_back(testing::RandomPlan(rng, testing::RandomPlanLimits()));
    results.push_back(testing::RandomResult(rng));
  }
  Connection connection([&](FakeExecute& call) {
    call.Open();
    for (int i = 0; i < kPlans; ++i) {
      uint64_t sequence = 0;
      const StepPlan plan = call.ReadPlan(&sequence);
      EXPECT_EQ(sequence, static_cast<uint64_t>(i + 1));
      EXPECT_TRUE(testing::Same(plan, plans[i]));
      call.Answer(sequence, results[i], /*step_us=*/1500);
    }
    call.AwaitClient();
    return grpc::Status::OK;
  });
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);

  for (int i = 0; i < kPlans; ++i) {
    connection.client->Send(connected->epoch, i + 1, plans[i]);
  }

  for (int i = 0; i < kPlans; ++i) {
    const auto outcome = connection.log.NextAs<WorkerOutcome>();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->epoch, connected->epoch);
    EXPECT_EQ(outcome->sequence, static_cast<uint64_t>(i + 1));
    EXPECT_DOUBLE_EQ(outcome->step_seconds, 0.0015);
    ASSERT_TRUE(outcome->result.ok()) << outcome->result.status();
    EXPECT_TRUE(*outcome->result == results[i]);
  }
}

TEST(GrpcWorkerClientTest, ARefusalIsAnOutcomeAndTheStreamGoesOn) {
  Connection connection([](FakeExecute& call) {
    call.Open();
    uint64_t sequence = 0;
    call.ReadPlan(&sequence);
    call.Write([&](auto& response) {
      response.mutable_outcome()->set_sequence(sequence);
      worker::v1::Refusal& refusal =
          *response.mutable_outcome()->mutable_refusal();
      refusal.set_code(grpc::StatusCode::INVALID_ARGUMENT);
      refusal.set_message("slot is 9");
    });
    call.ReadPlan(&sequence);
    call.Answer(sequence, StepResult(), 0);
    call.AwaitClient();
    return grpc::Status::OK;
  });
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);

  connection.client->Send(connected->epoch, 1, StepPlan());
  connection.client->Send(connected->epoch, 2, StepPlan());

  const auto refused = connection.log.NextAs<WorkerOutcome>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->sequence, 1u);
  EXPECT_EQ(refused->result.status(), absl::InvalidArgumentError("slot is 9"));
  const auto answered = connection.log.NextAs<WorkerOutcome>();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->sequence, 2u);
  EXPECT_TRUE(answered->result.ok());
}

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

TEST(GrpcWorkerClientTest, AHigherEpochOfAClockThatIsAheadIsOutbid) {
  const uint64_t known = MicrosecondsNow() + 3'600'000'000;  // An hour.
  Connection connection([&](FakeExecute& call) {
    if (call.ReadEpoch() <= known) {
      return grpc::Status(grpc::FAILED_PRECONDITION, "a higher epoch is known");
    }
    call.Write([](auto& response) { response.mutable_opened(); });
    call.AwaitClient();
    return grpc::Status::OK;
  });

  uint64_t last = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::optional<WorkerEvent> event = connection.log.Next();
    ASSERT_TRUE(event);
    if (const auto* connected = std::get_if<WorkerConnected>(&*event)) {
      EXPECT_GT(connected->epoch, known);
      return;
    }
    const auto& lost = std::get<WorkerLost>(*event);
    EXPECT_EQ(lost.why.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_GT(lost.epoch, last);
    last = lost.epoch;
  }
  FAIL() << "not connected after 20 attempts";
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

TEST(GrpcWorkerClientTest, DrainingIsReportedOnce) {
  Connection connection([](FakeExecute& call) {
    call.Open();
    call.Beat();
    call.Beat(/*draining=*/true);
    call.Beat(/*draining=*/true);
    return grpc::Status(grpc::UNAVAILABLE, "bye");
  });
  const auto connected = connection.log.NextAs<WorkerConnected>();

  const auto draining = connection.log.NextAs<WorkerDraining>();
  const auto lost = connection.log.NextAs<WorkerLost>();

  ASSERT_TRUE(connected && draining && lost);
  EXPECT_EQ(draining->epoch, connected->epoch);
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
    connection.client->Send(connected->epoch, i, StepPlan());
  }
  connection.client->Close(connected->epoch);
  connection.client->Send(connected->epoch, 21, StepPlan());  // Too late.

  EXPECT_EQ(plans_read.get_future().get(), 20);
  const auto lost = connection.log.NextAs<WorkerLost>();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->why.code(), absl::StatusCode::kUnavailable);
}

TEST(GrpcWorkerClientTest, PlansOfAnotherEpochAreDropped) {
  std::promise<uint64_t> first_sequence;
  Connection connection([&](FakeExecute& call) {
    call.Open();
    uint64_t sequence = 0;
    call.ReadPlan(&sequence);
    first_sequence.set_value(sequence);
    call.AwaitClient();
    return grpc::Status::OK;
  });
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);

  connection.client->Send(connected->epoch - 1, 77, StepPlan());
  connection.client->Close(connected->epoch - 1);
  connection.client->Send(connected->epoch, 1, StepPlan());

  EXPECT_EQ(first_sequence.get_future().get(), 1u);
}

TEST(GrpcWorkerClientTest, BrokenProtocolEndsTheConnection) {
  using Response = worker::v1::ExecuteResponse;
  const std::function<void(Response&)> broken[] = {
      [](Response& r) { r.mutable_opened(); },  // A second time.
      [](Response& r) { r.set_epoch(r.epoch() + 1), r.mutable_heartbeat(); },
      [](Response&) {},
      [](Response& r) { r.mutable_outcome(); },
      [](Response& r) { r.mutable_outcome()->mutable_refusal(); },
      [](Response& r) {
        r.mutable_outcome()->mutable_result()->add_sequences()->set_committed(
            -1);
      },
  };
  for (const auto& response : broken) {
    SCOPED_TRACE(&response - broken);
    Connection connection([&](FakeExecute& call) {
      call.Open();
      call.Write(response);
      call.AwaitClient();
      return grpc::Status::OK;
    });
    ASSERT_TRUE(connection.log.NextAs<WorkerConnected>());

    const auto lost = connection.log.NextAs<WorkerLost>();

    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->why.code(), absl::StatusCode::kInternal) << lost->why;
    EXPECT_NE(lost->why.message().find("protocol"), absl::string_view::npos);
  }
}

TEST(GrpcWorkerClientTest, AnOutcomeBeforeOpeningEndsTheConnection) {
  Connection connection([](FakeExecute& call) {
    call.ReadEpoch();
    call.Answer(1, StepResult(), 0);
    call.AwaitClient();
    return grpc::Status::OK;
  });

  const auto lost = connection.log.NextAs<WorkerLost>();

  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->why.code(), absl::StatusCode::kInternal);
}

TEST(GrpcWorkerClientTest, AWorkerThatMakesNoSenseIsNotUsed) {
  WorkerDescription negative = TinyWorker();
  negative.limits.num_slots = -1;
  WorkerDescription hot = TinyWorker();
  hot.temperature = -1;
  WorkerDescription stop = TinyWorker();
  stop.stop_tokens = {303};
  WorkerDescription stops = TinyWorker();
  stops.stop_tokens.assign(17, 1);

  for (const WorkerDescription& description : {negative, hot, stop, stops}) {
    Connection connection(
        Idle, [](auto&) {}, description);

    const auto lost = connection.log.NextAs<WorkerLost>();

    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->why.code(), absl::StatusCode::kInvalidArgument)
        << lost->why;
    EXPECT_EQ(connection.worker.num_calls(), 0);
  }
}

TEST(GrpcWorkerClientTest, NobodyListeningIsReportedAndDestructionDoesNotWait) {
  std::string address;
  { address = FakeWorker(TinyWorker(), Idle).address(); }
  EventLog log;
  GrpcWorkerClientOptions options = OptionsFor(address);
  options.min_backoff = hours(1);
  auto client = std::make_unique<GrpcWorkerClient>(
      options, [&](WorkerEvent event) { log.Add(std::move(event)); });

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
    connection.client->Send(connected->epoch, i, StepPlan());
  }

  const auto start = steady_clock::now();
  connection.client.reset();

  EXPECT_LT(steady_clock::now() - start, seconds(10));
  EXPECT_TRUE(connection.log.NextAs<WorkerLost>());
  EXPECT_FALSE(connection.log.Next(milliseconds(0)));
}

}  // namespace
}  // namespace bole
