#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/protocol_version.h"
#include "proto/step_codec.h"
#include "scheduler_service/links/grpc_worker_client.h"
#include "tests/scheduler_service/links/scripted_connection.h"
#include "tests/testing/random_step.h"
#include "tests/testing/same_plan.h"

namespace bole {
namespace {

using testing::Connection;
using testing::FakeExecute;
using testing::Idle;
using testing::TinyWorker;

uint64_t MicrosecondsNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TEST(GrpcWorkerProtocolTest, ReportsWhatTheWorkerSaysOfItself) {
  const uint64_t before = MicrosecondsNow();
  WorkerDescription description = TinyWorker();
  description.device = "cpu, 2 threads";
  description.version = "9";
  description.has_drafter = true;
  description.synthetic = true;
  description.fingerprint.config = std::string(64, 'c');
  description.fingerprint.weights = std::string(64, '0');
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
  EXPECT_EQ(got.protocol_version, kProtocolVersion);
  EXPECT_TRUE(got.synthetic);
  EXPECT_EQ(got.fingerprint, description.fingerprint);
  EXPECT_EQ(got.limits.max_context, 100);
  EXPECT_EQ(got.limits.vocabulary, 303);
  EXPECT_EQ(got.stop_tokens, description.stop_tokens);
  EXPECT_EQ(got.temperature, description.temperature);
  EXPECT_EQ(got.top_k, description.top_k);
  EXPECT_EQ(got.top_p, description.top_p);
  EXPECT_EQ(got.min_p, description.min_p);
  EXPECT_EQ(got.repetition_penalty, description.repetition_penalty);
}

TEST(GrpcWorkerProtocolTest, PlansArriveInOrderAndResultsComeBack) {
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
      call.Answer(sequence, results[i], /*step_us=*/1500,
                  i % 2 == 0 ? ResultForm::kRaw : ResultForm::kArrays);
    }
    call.AwaitClient();
    return grpc::Status::OK;
  });
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);

  for (int i = 0; i < kPlans; ++i) {
    connection.client->Send(connected->epoch, i + 1, plans[i], {});
  }

  for (int i = 0; i < kPlans; ++i) {
    const auto outcome = connection.log.NextAs<WorkerOutcome>();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->epoch, connected->epoch);
    EXPECT_EQ(outcome->plan_number, static_cast<uint64_t>(i + 1));
    EXPECT_DOUBLE_EQ(outcome->step_seconds, 0.0015);
    ASSERT_TRUE(outcome->result.ok()) << outcome->result.status();
    EXPECT_TRUE(*outcome->result == results[i]);
  }
}

TEST(GrpcWorkerProtocolTest, TheFirstRequestNamesTheScheduler) {
  std::promise<worker::v1::ExecuteRequest> first;
  Connection connection([&](FakeExecute& call) {
    worker::v1::ExecuteRequest request;
    call.Read(request);
    first.set_value(request);
    call.AwaitClient();
    return grpc::Status::OK;
  });

  const worker::v1::ExecuteRequest hello = first.get_future().get();

  EXPECT_GT(hello.epoch(), 0u);
  EXPECT_FALSE(hello.has_plan());
  EXPECT_EQ(hello.scheduler().name(), "tester:1");
  EXPECT_EQ(hello.scheduler().instance(), 0x7e57u);
  EXPECT_EQ(hello.scheduler().protocol_version(), kProtocolVersion);
}

TEST(GrpcWorkerProtocolTest, SignsOfLifeComeAtTheIntervalOfTheWorker) {
  std::promise<std::vector<worker::v1::ExecuteRequest>> signs;
  const auto start = std::chrono::steady_clock::now();
  Connection connection([&](FakeExecute& call) {
    call.Open(/*heartbeat_interval_ms=*/20);
    std::vector<worker::v1::ExecuteRequest> requests(5);
    for (worker::v1::ExecuteRequest& request : requests) call.Read(request);
    signs.set_value(std::move(requests));
    call.AwaitClient();
    return grpc::Status::OK;
  });
  const auto connected = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(connected);

  const auto requests = signs.get_future().get();

  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(5 * 20));
  worker::v1::ExecuteRequest sign;
  sign.set_epoch(connected->epoch);
  for (const worker::v1::ExecuteRequest& request : requests) {
    EXPECT_EQ(request.SerializeAsString(), sign.SerializeAsString());
  }
}

TEST(GrpcWorkerProtocolTest, AWorkerOfADistantVersionIsRefused) {
  WorkerDescription older = TinyWorker();
  older.protocol_version = kProtocolVersion - 2;
  WorkerDescription newer = TinyWorker();
  newer.protocol_version = kProtocolVersion + 2;
  for (const WorkerDescription& description : {older, newer}) {
    Connection connection(
        Idle, [](auto&) {}, description);

    const auto lost = connection.log.NextAs<WorkerLost>();

    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->why,
              absl::FailedPreconditionError(absl::StrCat(
                  "the worker's protocol_version is ",
                  description.protocol_version, ", this side's is ",
                  kProtocolVersion, "; they may differ by 1 at most")));
    EXPECT_EQ(connection.worker.num_calls(), 0);
  }
}

TEST(GrpcWorkerProtocolTest, ARefusalIsAnOutcomeAndTheStreamGoesOn) {
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

  connection.client->Send(connected->epoch, 1, StepPlan(), {});
  connection.client->Send(connected->epoch, 2, StepPlan(), {});

  const auto refused = connection.log.NextAs<WorkerOutcome>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->plan_number, 1u);
  EXPECT_EQ(refused->result.status(), absl::InvalidArgumentError("slot is 9"));
  const auto answered = connection.log.NextAs<WorkerOutcome>();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->plan_number, 2u);
  EXPECT_TRUE(answered->result.ok());
}

TEST(GrpcWorkerProtocolTest, DrainingIsReportedOnce) {
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

TEST(GrpcWorkerProtocolTest, PlansOfAnotherEpochAreDropped) {
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

  connection.client->Send(connected->epoch - 1, 77, StepPlan(), {});
  connection.client->Close(connected->epoch - 1);
  connection.client->Send(connected->epoch, 1, StepPlan(), {});

  EXPECT_EQ(first_sequence.get_future().get(), 1u);
}

TEST(GrpcWorkerProtocolTest, DisconnectingEndsTheConnectionByName) {
  Connection connection([](FakeExecute& call) {
    call.Open();
    call.AwaitClient();
    EXPECT_TRUE(call.cancelled());
    return grpc::Status::OK;
  });
  const auto first = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(first);

  connection.client->Disconnect(first->epoch - 1, absl::InternalError("no"));
  connection.client->Disconnect(first->epoch,
                                absl::DeadlineExceededError("plan 1 is late"));

  const auto lost = connection.log.NextAs<WorkerLost>();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->epoch, first->epoch);
  EXPECT_EQ(lost->why, absl::DeadlineExceededError("plan 1 is late"));
  const auto second = connection.log.NextAs<WorkerConnected>();
  ASSERT_TRUE(second);
  EXPECT_GT(second->epoch, first->epoch);
}

TEST(GrpcWorkerProtocolTest, BrokenProtocolEndsTheConnection) {
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

TEST(GrpcWorkerProtocolTest, AnOutcomeBeforeOpeningEndsTheConnection) {
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

TEST(GrpcWorkerProtocolTest, AWorkerThatMakesNoSenseIsNotUsed) {
  WorkerDescription negative = TinyWorker();
  negative.limits.num_slots = -1;
  WorkerDescription hot = TinyWorker();
  hot.temperature = -1;
  WorkerDescription repeating = TinyWorker();
  repeating.repetition_penalty = 0;
  WorkerDescription none_likely = TinyWorker();
  none_likely.min_p = 1.5f;
  WorkerDescription stop = TinyWorker();
  stop.stop_tokens = {303};
  WorkerDescription stops = TinyWorker();
  stops.stop_tokens.assign(17, 1);
  WorkerDescription crowded = TinyWorker();
  crowded.limits.max_nodes = crowded.limits.max_requests - 1;

  for (const WorkerDescription& description :
       {negative, hot, repeating, none_likely, stop, stops, crowded}) {
    Connection connection(
        Idle, [](auto&) {}, description);

    const auto lost = connection.log.NextAs<WorkerLost>();

    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->why.code(), absl::StatusCode::kInvalidArgument)
        << lost->why;
    EXPECT_EQ(connection.worker.num_calls(), 0);
  }
}

}  // namespace
}  // namespace bole
