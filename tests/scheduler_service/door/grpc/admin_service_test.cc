#include "scheduler_service/door/grpc/admin_service.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/flight/flight_recorder.h"
#include "common/json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/door/grpc/admin_codec.h"
#include "scheduler_service/watch/round_record.h"
#include "tests/scheduler_service/tiny_system.h"

namespace bole {
namespace {

using testing::OpenCall;
using testing::TinySystem;

v1::GenerateRequest Ask(int max_tokens) {
  v1::GenerateRequest request;
  for (const int token : {'q', 'r', 's'}) {
    request.mutable_token_ids()->add_ids(token);
  }
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  return request;
}

v1::ListWorkersResponse Workers(TinySystem& system) {
  grpc::ClientContext context;
  v1::ListWorkersResponse response;
  EXPECT_TRUE(
      system.admin->ListWorkers(&context, v1::ListWorkersRequest(), &response)
          .ok());
  return response;
}

v1::GetLoadResponse LoadOf(TinySystem& system) {
  grpc::ClientContext context;
  v1::GetLoadResponse response;
  EXPECT_TRUE(
      system.admin->GetLoad(&context, v1::GetLoadRequest(), &response).ok());
  return response;
}

TEST(AdminServiceTest, WorkersAreListedWithWhatTheyRun) {
  SchedulerServerOptions options;
  options.scheduler.max_running = 1;
  TinySystem system(options);
  // What is told is what held after the loop's last turn, which may still be
  // the one that the worker came in.
  uint32_t free = 0;
  for (int i = 0; i < 3000 && free == 0; ++i) {
    free = Workers(system).workers(0).slots().free();
  }
  EXPECT_EQ(free, 4u);
  system.worker.Hold();
  OpenCall running(system, Ask(5));
  ASSERT_TRUE(system.AwaitLoad(1, 0));

  const v1::ListWorkersResponse response = Workers(system);

  ASSERT_EQ(response.workers_size(), 1);
  const v1::WorkerInfo& worker = response.workers(0);
  EXPECT_TRUE(worker.connected());
  EXPECT_FALSE(worker.draining());
  EXPECT_EQ(worker.address(), system.worker.address());
  EXPECT_EQ(worker.model(), "tiny");
  EXPECT_EQ(worker.running_requests(), 1u);
  EXPECT_EQ(worker.prefilling_requests(), 1u);
  EXPECT_EQ(worker.slots().total(), 4u);
  EXPECT_EQ(worker.slots().free(), 3u);
  EXPECT_LT(worker.pages().free(), worker.pages().total());
}

TEST(AdminServiceTest, AWorkerThatIsNotThereSaysWhy) {
  TinySystem system({}, /*with_worker=*/false);

  EXPECT_TRUE(testing::Eventually([&] {
    const v1::ListWorkersResponse response = Workers(system);
    return response.workers_size() == 1 && !response.workers(0).connected() &&
           !response.workers(0).last_error().empty();
  }));
}

TEST(AdminServiceTest, TheLoadIsThatOfEachModelAndOfAll) {
  SchedulerServerOptions options;
  options.scheduler.max_running = 1;
  TinySystem system(options);
  system.worker.Hold();
  OpenCall running(system, Ask(5));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  OpenCall second(system, Ask(5));
  OpenCall third(system, Ask(5));
  ASSERT_TRUE(system.AwaitLoad(1, 2));

  const v1::GetLoadResponse load = LoadOf(system);

  ASSERT_EQ(load.models_size(), 1);
  EXPECT_EQ(load.models(0).model(), "tiny");
  for (const v1::Load& of : {load.models(0), load.total()}) {
    EXPECT_EQ(of.running_requests(), 1u);
    EXPECT_EQ(of.waiting_requests(), 2u);
    EXPECT_EQ(of.waiting_tokens(), 6u);
    EXPECT_EQ(of.waiting_bytes(), 2 * Ask(5).ByteSizeLong());
  }
  system.worker.Release();
  EXPECT_TRUE(third.Finish().ok());
  EXPECT_TRUE(system.AwaitLoad(0, 0));
  EXPECT_EQ(LoadOf(system).total().waiting_tokens(), 0u);
  EXPECT_EQ(LoadOf(system).total().waiting_bytes(), 0u);
}

TEST(AdminServiceTest, TheAuditIsCleanWhileAllIsWell) {
  TinySystem system;
  EXPECT_TRUE(OpenCall(system, Ask(5)).Finish().ok());
  grpc::ClientContext context;
  v1::AuditResponse audit;

  EXPECT_TRUE(system.admin->Audit(&context, v1::AuditRequest(), &audit).ok());

  EXPECT_EQ(audit.problems_size(), 0);
}

TEST(AdminServiceTest, TheLastRoundsAreDumpedInNumbers) {
  FlightRecorder recorder(RoundFields(), /*capacity=*/64);
  SchedulerServerOptions options;
  options.scheduler.flight.recorder = &recorder;
  TinySystem system(options);
  EXPECT_TRUE(OpenCall(system, Ask(5)).Finish().ok());
  ASSERT_TRUE(system.AwaitLoad(0, 0));
  grpc::ClientContext context;
  v1::DumpRoundsResponse dumped;
  ASSERT_TRUE(
      system.admin->DumpRounds(&context, v1::DumpRoundsRequest(), &dumped)
          .ok());

  const std::vector<std::string> lines =
      absl::StrSplit(dumped.json_lines(), '\n', absl::SkipEmpty());
  ASSERT_GE(lines.size(), 2u);
  double emitted = 0;
  for (const std::string& line : lines) {
    const auto json = ParseJson(line, /*max_depth=*/1);
    ASSERT_TRUE(json.ok()) << line;
    if (&line == &lines[0]) {
      EXPECT_EQ((*json)["flight_record"], "bole-scheduler");
      EXPECT_EQ((*json)["reason"], "asked");
      continue;
    }
    EXPECT_EQ((*json)["outcome"], "done") << line;
    EXPECT_GT((*json)["round_seconds"].get<double>(), 0) << line;
    emitted += (*json)["emitted"].get<double>();
  }
  EXPECT_EQ(emitted, 5);
}

TEST(AdminServiceTest, WithoutARecorderThereAreNoRounds) {
  TinySystem system;
  grpc::ClientContext context;
  v1::DumpRoundsResponse dumped;
  const grpc::Status status =
      system.admin->DumpRounds(&context, v1::DumpRoundsRequest(), &dumped);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(AdminCodecTest, TheAuditNamesEveryWorkerThatHasAProblem) {
  SchedulerStatus status;
  status.workers.resize(3);
  status.workers[0].name = "a:1";
  status.workers[0].audit = "slot 3 is lost";
  status.workers[2].name = "c:1";
  status.workers[2].audit = "page 7 is lost";
  status.audit = "worker a:1: slot 3 is lost";

  const v1::AuditResponse audit = EncodeAudit(status);

  ASSERT_EQ(audit.problems_size(), 2);
  EXPECT_EQ(audit.problems(0).worker(), "a:1");
  EXPECT_EQ(audit.problems(0).text(), "slot 3 is lost");
  EXPECT_EQ(audit.problems(1).worker(), "c:1");
}

TEST(AdminCodecTest, TheSchedulersOwnProblemHasNoWorker) {
  SchedulerStatus status;
  status.workers.resize(1);
  status.audit = "no worker has a plan";

  const v1::AuditResponse audit = EncodeAudit(status);

  ASSERT_EQ(audit.problems_size(), 1);
  EXPECT_EQ(audit.problems(0).worker(), "");
  EXPECT_EQ(audit.problems(0).text(), "no worker has a plan");
}

}  // namespace
}  // namespace bole
