#include "worker_service/serving/worker_admin_service.h"

#include <memory>
#include <string>

#include "common/flight/flight_recorder.h"
#include "common/net/service_host.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/bole.grpc.pb.h"
#include "worker_service/loop/step_record.h"

namespace bole {
namespace {

class WorkerAdminServiceTest : public ::testing::Test {
 protected:
  void Serve(const FlightRecorder* rounds) {
    admin_ = std::make_unique<WorkerAdminService>(rounds);
    grpc::Service* services[] = {admin_.get()};
    auto host = ServiceHost::Start({}, services);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    stub_ = v1::Admin::NewStub(grpc::CreateChannel(
        host_->address().ToString(), grpc::InsecureChannelCredentials()));
  }

  std::unique_ptr<WorkerAdminService> admin_;
  std::unique_ptr<ServiceHost> host_;
  std::unique_ptr<v1::Admin::Stub> stub_;
};

TEST_F(WorkerAdminServiceTest, GivesTheLastRounds) {
  FlightRecorder rounds(StepFields(), kStepRecords);
  StepRecord record;
  record.plan = 7;
  rounds.Add(NumbersOf(record));
  Serve(&rounds);
  grpc::ClientContext context;
  v1::DumpRoundsResponse dumped;

  const grpc::Status status = stub_->DumpRounds(&context, {}, &dumped);

  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::string& lines = dumped.json_lines();
  const size_t first = lines.find('\n') + 1;
  EXPECT_EQ(nlohmann::json::parse(lines.substr(0, first))["flight_record"],
            "bole-worker");
  EXPECT_EQ(nlohmann::json::parse(lines.substr(first))["plan"], 7);
}

TEST_F(WorkerAdminServiceTest, WithoutRoundsItSaysSo) {
  Serve(nullptr);
  grpc::ClientContext context;
  v1::DumpRoundsResponse dumped;

  const grpc::Status status = stub_->DumpRounds(&context, {}, &dumped);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(WorkerAdminServiceTest, WhatASchedulerKnowsIsNotAsked) {
  Serve(nullptr);
  grpc::ClientContext context;
  v1::ListWorkersResponse workers;

  const grpc::Status status = stub_->ListWorkers(&context, {}, &workers);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace bole
