#include "tests/worker_service/serving/execute_client.h"

#include <chrono>

#include "gtest/gtest.h"
#include "proto/protocol_version.h"
#include "proto/step_codec.h"

namespace bole::testing {

namespace wire = worker::v1;

wire::ExecuteRequest HelloAt(uint64_t epoch) {
  wire::ExecuteRequest hello;
  hello.set_epoch(epoch);
  hello.mutable_scheduler()->set_name("tester");
  hello.mutable_scheduler()->set_instance(1);
  hello.mutable_scheduler()->set_protocol_version(kProtocolVersion);
  return hello;
}

ExecuteClient::ExecuteClient(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(wire::Worker::NewStub(channel)) {
  context_.set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(30));
  stream_ = stub_->Execute(&context_);
}

ExecuteClient::~ExecuteClient() {
  if (finished_) return;
  Cancel();
  Finish();
}

void ExecuteClient::SendPlan(uint64_t epoch, uint64_t sequence,
                             const StepPlan& plan) {
  wire::ExecuteRequest request;
  request.set_epoch(epoch);
  request.set_sequence(sequence);
  EncodePlan(plan, *request.mutable_plan());
  Send(request);
}

void ExecuteClient::Send(const wire::ExecuteRequest& request) {
  stream_->Write(request);
}

std::optional<wire::ExecuteResponse> ExecuteClient::Receive() {
  wire::ExecuteResponse response;
  if (!stream_->Read(&response)) return std::nullopt;
  return response;
}

wire::ExecuteResponse ExecuteClient::ReceiveOpened() {
  const std::optional<wire::ExecuteResponse> response = Receive();
  EXPECT_TRUE(response && response->has_opened());
  return response.value_or(wire::ExecuteResponse());
}

wire::StepOutcome ExecuteClient::ReceiveOutcome() {
  while (const std::optional<wire::ExecuteResponse> response = Receive()) {
    if (response->has_outcome()) return response->outcome();
  }
  ADD_FAILURE() << "the stream has ended";
  return {};
}

wire::Heartbeat ExecuteClient::ReceiveHeartbeat() {
  while (const std::optional<wire::ExecuteResponse> response = Receive()) {
    if (response->has_heartbeat()) return response->heartbeat();
  }
  ADD_FAILURE() << "the stream has ended";
  return {};
}

grpc::Status ExecuteClient::Finish() {
  while (Receive()) continue;
  finished_ = true;
  return stream_->Finish();
}

std::unique_ptr<ExecuteClient> OpenAt(
    const std::shared_ptr<grpc::Channel>& channel, uint64_t epoch) {
  auto client = std::make_unique<ExecuteClient>(channel);
  client->SendHello(epoch);
  EXPECT_EQ(client->ReceiveOpened().epoch(), epoch);
  return client;
}

}  // namespace bole::testing
