// How a worker's process ends (worker_service/serving/worker_process.h), seen
// from outside.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/json.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/clients/cli/process.h"
#include "tests/worker_service/engine/faulty_backend.h"
#include "tests/worker_service/serving/execute_client.h"
#include "worker_service/loop/recorder.h"

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
  // Starts tests/worker_service/serving/faulty_worker and opens a stream.
  void Start(const std::string& fault, int good_steps, int timeout_ms) {
    process_ = std::make_unique<Process>(
        std::vector<std::string>{"tests/worker_service/serving/faulty_worker",
                                 fault, std::to_string(good_steps),
                                 std::to_string(timeout_ms), recording_,
                                 folder_},
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

  // The one file of the last rounds, parsed: a header, and then the rounds.
  std::vector<nlohmann::json> FlightLines(const char* reason) const {
    std::vector<nlohmann::json> lines;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_TRUE(lines.empty()) << "a second file: " << entry.path();
      EXPECT_THAT(entry.path().string(),
                  ::testing::EndsWith(std::string(reason) + ".jsonl"));
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        const auto json = ParseJson(line, /*max_depth=*/1);
        EXPECT_TRUE(json.ok()) << line;
        if (json.ok()) lines.push_back(*json);
      }
    }
    return lines;
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
  const std::string folder_ = [] {
    std::string folder = ::testing::TempDir() + "/flight";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    return folder;
  }();
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

  EXPECT_THAT(err, HasSubstr("the flight record is in " + folder_));
  const std::vector<nlohmann::json> rounds = FlightLines("fault");
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_EQ(rounds[0]["flight_record"], "bole-worker");
  EXPECT_EQ(rounds[0]["reason"], "fault");
  EXPECT_EQ(rounds[1]["outcome"], "done");
  EXPECT_EQ(rounds[1]["emitted"], 1);
  EXPECT_GT(rounds[1]["engine_seconds"].get<double>(), 0);
  EXPECT_EQ(rounds[2]["outcome"], "failed");
  EXPECT_EQ(rounds[2]["plan"], 2);
  EXPECT_EQ(rounds[2]["prefill_tokens"], 3);
}

TEST_F(WorkerProcessTest, SIGUSR1WritesTheLastRoundsAndItServesOn) {
  Start("error", /*good_steps=*/100, /*timeout_ms=*/0);
  client_->SendPlan(1, 1, SmallPlan());
  EXPECT_TRUE(client_->ReceiveOutcome().has_result());
  process_->Signal(SIGUSR1);
  std::vector<nlohmann::json> rounds;
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (rounds.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // A file that is not whole yet has another name.
    if (std::filesystem::is_empty(folder_)) continue;
    const auto file = *std::filesystem::directory_iterator(folder_);
    if (file.path().extension() == ".jsonl") rounds = FlightLines("signal");
  }
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[1]["outcome"], "done");
  client_->SendPlan(1, 2, SmallPlan());
  EXPECT_TRUE(client_->ReceiveOutcome().has_result());
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
  const std::vector<nlohmann::json> rounds = FlightLines("fault");
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[1]["outcome"], "running");
  EXPECT_EQ(rounds[1]["plan"], 1);
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
