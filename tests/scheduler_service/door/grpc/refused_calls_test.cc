// Calls that are not admitted, and how their clients hear of it.
#include <chrono>
#include <string>

#include "clients/sdk/call_error.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/tiny_system.h"

namespace bole {
namespace {

using testing::OpenCall;
using testing::TinySystem;

constexpr std::chrono::seconds kLong(60);

// In milliseconds; -1 if the client was not told.
int RetryDelay(const grpc::Status& status) {
  const auto told = ReadError(status).retry_after;
  return told ? static_cast<int>(told->count()) : -1;
}

v1::GenerateRequest Ask(int max_tokens) {
  v1::GenerateRequest request;
  for (const int token : {'q', 'r', 's'}) {
    request.mutable_token_ids()->add_ids(token);
  }
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  return request;
}

TEST(RefusedCallsTest, WithoutAWorkerRequestsAreUnavailable) {
  TinySystem system({}, /*with_worker=*/false);

  OpenCall call(system, Ask(1));
  const grpc::Status status = call.Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("no worker is connected"),
            std::string::npos);
  EXPECT_EQ(RetryDelay(status), -1);
  EXPECT_EQ(ReadError(status).reason, "NO_WORKER");
}

TEST(RefusedCallsTest, AFullQueueIsRefusedBeforeTheRequestIsRead) {
  SchedulerServerOptions options;
  options.scheduler.admission.max_requests = 1;
  options.scheduler.max_running = 1;
  TinySystem system(options);
  system.worker.Hold();
  OpenCall running(system, Ask(5));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  OpenCall waiting(system, Ask(5));
  ASSERT_TRUE(system.AwaitLoad(1, 1));

  // It would be INVALID_ARGUMENT.
  OpenCall refused(system, Ask(-1));
  const grpc::Status status = refused.Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GE(RetryDelay(status), 100);
  EXPECT_EQ(ReadError(status).reason, "QUEUE_REQUESTS");
  EXPECT_EQ(ReadError(status).metadata.at("max"), "1");
  system.worker.Release();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(waiting.Finish().ok());
}

TEST(RefusedCallsTest, TheRetryDelayGrowsWhileNothingIsTakenIn) {
  SchedulerServerOptions options;
  options.scheduler.admission.max_requests = 1;
  options.scheduler.max_running = 1;
  TinySystem system(options);
  system.worker.Hold();
  OpenCall running(system, Ask(5));  // Measures how fast the queue moves.
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  OpenCall waiting(system, Ask(5));
  ASSERT_TRUE(system.AwaitLoad(1, 1));
  const auto retry_delay = [&] {
    return RetryDelay(OpenCall(system, Ask(5)).Finish());
  };

  const int first = retry_delay();

  EXPECT_GE(first, 100);
  EXPECT_TRUE(testing::Eventually([&] { return retry_delay() > first + 100; }));
  EXPECT_LE(retry_delay(), 60'000);
  system.worker.Release();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(waiting.Finish().ok());
}

TEST(RefusedCallsTest, TheTenantIsMetadataThatIsCheckedAndTakesItsTurn) {
  SchedulerServerOptions options;
  options.scheduler.max_running = 1;
  TinySystem system(options);
  system.worker.Hold();
  OpenCall running(system, Ask(1), kLong, {{"bole-tenant", "blue"}});
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  OpenCall blue(system, Ask(400), kLong, {{"bole-tenant", "blue"}});
  ASSERT_TRUE(system.AwaitLoad(1, 1));
  OpenCall red(system, Ask(1), kLong, {{"bole-tenant", "red"}});
  ASSERT_TRUE(system.AwaitLoad(1, 2));

  const grpc::Status space =
      OpenCall(system, Ask(1), kLong, {{"bole-tenant", "a b"}}).Finish();
  const grpc::Status both =
      OpenCall(system, Ask(1), kLong,
               {{"bole-tenant", "red"}, {"bole-tenant", "blue"}})
          .Finish();
  // One round ends `running`, one ends `red`, which came last.
  system.worker.AnswerOne();
  EXPECT_TRUE(running.Finish().ok());
  system.worker.AnswerOne();
  EXPECT_TRUE(red.Finish().ok());
  EXPECT_TRUE(system.AwaitLoad(1, 0));

  blue.Cancel();
  blue.Finish();
  EXPECT_EQ(space.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(space.error_message().find("bole-tenant is 'a b'"),
            std::string::npos);
  EXPECT_NE(both.error_message().find("bole-tenant is 'red,blue'"),
            std::string::npos);
}

TEST(RefusedCallsTest, ARequestThatDoesNotFitTheQueueIsRefused) {
  SchedulerServerOptions options;
  options.scheduler.admission.max_tokens = 5;
  options.scheduler.max_running = 1;
  TinySystem system(options);
  system.worker.Hold();
  OpenCall running(system, Ask(5));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  OpenCall waiting(system, Ask(5));  // 3 of 5 tokens.
  ASSERT_TRUE(system.AwaitLoad(1, 1));

  OpenCall refused(system, Ask(5));
  const grpc::Status status = refused.Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GE(RetryDelay(status), 100);
  EXPECT_EQ(ReadError(status).reason, "QUEUE_TOKENS");
}

TEST(RefusedCallsTest, OpenCallsAreBounded) {
  SchedulerServerOptions options;
  options.door.max_open_requests = 2;
  TinySystem system(options);
  system.worker.Hold();
  OpenCall first(system, Ask(5));
  OpenCall second(system, Ask(5));
  ASSERT_TRUE(testing::Eventually([&] {
    const SchedulerStatus status = system.server->loop().status();
    return status.running + status.waiting == 2;
  }));

  OpenCall third(system, Ask(5));
  const grpc::Status status = third.Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReadError(status).reason, "TOO_MANY_OPEN");
  system.worker.Release();
  EXPECT_TRUE(first.Finish().ok());
  EXPECT_TRUE(second.Finish().ok());
  // Refused calls do not count, and a call counts until the server has seen its
  // end, which may be a moment after its caller has.
  EXPECT_TRUE(testing::Eventually(
      [&] { return OpenCall(system, Ask(1)).Finish().ok(); }));
}

TEST(RefusedCallsTest, ErrorsOfTheRequestAreItsStatus) {
  TinySystem system;
  v1::GenerateRequest other_model = Ask(1);
  other_model.set_model("other");

  const grpc::Status invalid = OpenCall(system, Ask(0)).Finish();
  const grpc::Status not_found = OpenCall(system, other_model).Finish();

  EXPECT_EQ(invalid.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(invalid.error_message().find("max_tokens is 0"), std::string::npos);
  EXPECT_EQ(not_found.error_code(), grpc::StatusCode::NOT_FOUND);
  const CallError wrong = ReadError(invalid);
  EXPECT_EQ(wrong.reason, "INVALID_ARGUMENT");
  ASSERT_EQ(wrong.violations.size(), 1u);
  EXPECT_EQ(wrong.violations[0].field, "sampling_params.max_tokens");
  EXPECT_EQ(ReadError(not_found).reason, "UNKNOWN_MODEL");
  EXPECT_EQ(ReadError(not_found).violations.at(0).field, "model");
}

TEST(RefusedCallsTest, WhatIsNotOfferedIsUnimplementedAndNamed) {
  TinySystem system;
  v1::GenerateRequest request = Ask(1);
  request.set_grammar("root ::= 'a'");

  const grpc::Status status = OpenCall(system, request).Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  const CallError error = ReadError(status);
  EXPECT_EQ(error.reason, "UNIMPLEMENTED");
  EXPECT_EQ(error.violations.at(0).field, "grammar");
}

TEST(RefusedCallsTest, AnAdmittedRequestThatFailsHasAReason) {
  TinySystem system;
  system.worker.Hold();
  OpenCall stopped(system, Ask(400));
  ASSERT_TRUE(system.AwaitLoad(1, 0));

  system.server->Stop();
  const grpc::Status status = stopped.Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReadError(status).reason, "DRAINING");
}

}  // namespace
}  // namespace bole
