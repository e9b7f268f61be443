// How a worker's process ends (worker_service/worker_process.h), seen from
// outside.
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/clients/cli/process.h"
#include "tests/worker_service/execute_client.h"
#include "tests/worker_service/faulty_backend.h"
#include "worker_service/recorder.h"

namespace bole {
namespace {

using ::bole::testing::ExecuteClient;
using ::bole::testing::OpenAt;
using ::bole::testing::SmallPlan;
using ::bole::testing_support::Process;
using ::bole::testing_support::Streams;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// A process has 0.3 s for its farewells and 0.1 s to notice a hang; the rest is
// for a busy machine. One that ran destructors would never end.
constexpr std::chrono::seconds kEndsWithin(5);

class WorkerProcessTest : public ::testing::Test {
 protected:
  // Starts tests/worker_service/faulty_worker and opens a stream.
  void Start(const std::string& fault, int good_steps, int timeout_ms) {
    process_ = std::make_unique<Process>(
        std::vector<std::string>{"tests/worker_service/faulty_worker", fault,
                                 std::to_string(good_steps),
                                 std::to_string(timeout_ms), recording_},
        /*input=*/"", Streams::kPipes);
    const std::string before = "listening on ";
    ASSERT_TRUE(process_->WaitFor(before) && process_->WaitFor("\n"));
    const std::string& out = process_->out();
    const size_t begin = out.find(before) + before.size();
    const std::string address =
        out.substr(begin, out.find('\n', begin) - begin);
    client_ = OpenAt(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()), 1);
  }

  // A plan is recorded when its step begins.
  void AwaitStep() const {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (Clock::now() < deadline) {
      const auto steps = ReadRecording(recording_);
      if (steps.ok() && !steps->empty()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "no step began";
  }

  const std::string recording_ = ::testing::TempDir() + "/steps.binpb";
  std::unique_ptr<Process> process_;
  std::unique_ptr<ExecuteClient> client_;
};

TEST_F(WorkerProcessTest, ADeviceThatFailsEndsItAtOnceAndLeavesThePlan) {
  Start("error", /*good_steps=*/1, /*timeout_ms=*/0);
  client_->SendPlan(1, 1, SmallPlan());
  EXPECT_TRUE(client_->ReceiveOutcome().has_result());

  const auto begin = Clock::now();
  client_->SendPlan(1, 2, SmallPlan());
  const grpc::Status end = client_->Finish();

  EXPECT_EQ(process_->Wait(), 1);
  EXPECT_LT(Clock::now() - begin, kEndsWithin);
  EXPECT_EQ(end.error_code(), grpc::StatusCode::INTERNAL);
  const std::string& err = process_->err();
  EXPECT_THAT(err, HasSubstr(end.error_message()));
  EXPECT_THAT(err,
              HasSubstr("plan 2 of stream 1 (1 prefill chunk of 3 tokens)"));
  EXPECT_THAT(err, HasSubstr("cudaErrorIllegalAddress"));
  const auto steps = ReadRecording(recording_);
  ASSERT_EQ(steps.status(), absl::OkStatus());
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_TRUE((*steps)[0].is_complete());
  EXPECT_EQ((*steps)[1].plan.prefills[0].tokens,
            SmallPlan().prefills[0].tokens);
  EXPECT_FALSE((*steps)[1].is_complete());
}

TEST_F(WorkerProcessTest, ADeviceThatHangsEndsItAfterTheTimeout) {
  Start("hang", /*good_steps=*/0, /*timeout_ms=*/100);
  const auto begin = Clock::now();
  client_->SendPlan(1, 1, SmallPlan());
  const grpc::Status end = client_->Finish();

  EXPECT_EQ(process_->Wait(), 1);
  EXPECT_LT(Clock::now() - begin, kEndsWithin);
  EXPECT_EQ(end.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(process_->err(), HasSubstr(end.error_message()));
  EXPECT_THAT(process_->err(), HasSubstr("plan 1 of stream 1 ("));
  EXPECT_EQ(ReadRecording(recording_)->size(), 1u);
}

// The first signal drains, the second stops, and both wait for the step.
TEST_F(WorkerProcessTest, ADeviceThatHangsEndsADrainToo) {
  Start("hang", /*good_steps=*/0, /*timeout_ms=*/500);
  client_->SendPlan(1, 1, SmallPlan());
  AwaitStep();
  const auto begin = Clock::now();
  process_->Signal(SIGTERM);
  EXPECT_TRUE(client_->ReceiveHeartbeat().draining());
  process_->Signal(SIGTERM);

  EXPECT_EQ(process_->Wait(), 1);
  EXPECT_LT(Clock::now() - begin, kEndsWithin);
  EXPECT_THAT(process_->err(), HasSubstr("plan 1 of stream 1 ("));
}

}  // namespace
}  // namespace bole
