// Clients that leave, are late, or do not read: whatever they do and whenever,
// nothing of theirs stays behind and nobody else notices.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"
#include "tests/e2e/tcp_relay.h"

namespace bole::e2e {
namespace {

using std::chrono::milliseconds;

constexpr char kPrompt[] = "def fibonacci(n):\n";
// Runs for as long as a test may take.
constexpr int kForever = 8000;

// One request runs at a time, and a prompt takes many rounds.
SystemOptions OneAtATime() {
  SystemOptions options;
  options.scheduler.max_running = 1;
  options.engine.max_prefill_tokens = 64;
  return options;
}

v1::GenerateRequest Endless() { return GreedyRequest(kPrompt, kForever); }

v1::GenerateRequest LongPrompt() {
  v1::GenerateRequest request = GreedyRequest("", 1);
  for (int i = 0; i < kForever; ++i) {
    request.mutable_token_ids()->add_ids(100 + i % 1000);
  }
  return request;
}

enum class Stage { kQueued, kPrefill, kDecoding };

// A client at some stage of its request, over a line of its own. The server
// runs one request at a time.
class Client {
 public:
  Client(System& system, Stage stage,
         std::optional<milliseconds> timeout = std::nullopt)
      : line_(system.scheduler().port()),
        stub_(v1::BoleService::NewStub(system.NewChannel({}, line_.port()))) {
    const bool queued = stage == Stage::kQueued;
    if (queued) {
      blocker_ = std::make_unique<Call>(system.stub(), Endless());
      EXPECT_TRUE(blocker_->Read());
    }
    call_ = std::make_unique<Call>(
        *stub_, stage == Stage::kPrefill ? LongPrompt() : Endless(), timeout);
    if (stage == Stage::kDecoding) {
      EXPECT_TRUE(call_->Read());
    }
    if (!timeout) {
      EXPECT_TRUE(system.WaitForLoad(1, queued ? 1 : 0));
    }
  }

  TcpRelay& line() { return line_; }
  Call& call() { return *call_; }

  // The one who was there first goes on.
  void ExpectOthersRun(System& system) {
    if (!blocker_) return;
    EXPECT_TRUE(system.WaitForLoad(1, 0));
    EXPECT_TRUE(blocker_->Read());
    blocker_.reset();
  }

 private:
  TcpRelay line_;
  std::unique_ptr<v1::BoleService::Stub> stub_;
  std::unique_ptr<Call> blocker_;
  std::unique_ptr<Call> call_;
};

class E2eClientsTest : public ::testing::TestWithParam<Stage> {
 protected:
  // All tests share one pair of services.
  static System& system() {
    static System system(OneAtATime());
    return system;
  }

  void TearDown() override {
    system().ExpectIdle();
    const Generation after =
        Generate(system().stub(), GreedyRequest(kPrompt, 4));
    EXPECT_TRUE(after.status.ok()) << after.status.error_message();
  }
};

TEST_P(E2eClientsTest, AClientThatCancelsLeavesNothingBehind) {
  Client client(system(), GetParam());

  client.call().Cancel();

  EXPECT_EQ(client.call().Finish().status.error_code(),
            grpc::StatusCode::CANCELLED);
  client.ExpectOthersRun(system());
}

TEST_P(E2eClientsTest, AClientThatDisconnectsLeavesNothingBehind) {
  Client client(system(), GetParam());

  client.line().Cut();

  EXPECT_EQ(client.call().Finish().status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  client.ExpectOthersRun(system());
}

TEST_P(E2eClientsTest, ACallEndsAtItsDeadline) {
  const auto start = std::chrono::steady_clock::now();
  Client client(system(), GetParam(), milliseconds(600));

  const Generation& got = client.call().Finish();

  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(600));
  client.ExpectOthersRun(system());
}

INSTANTIATE_TEST_SUITE_P(Stages, E2eClientsTest,
                         ::testing::Values(Stage::kQueued, Stage::kPrefill,
                                           Stage::kDecoding));

class E2eLateClientsTest : public E2eClientsTest {};

TEST_F(E2eLateClientsTest, WhatCameBeforeTheDeadlineIsValid) {
  const Generation whole =
      Generate(system().stub(), GreedyRequest(kPrompt, 200));
  Call call(system().stub(), Endless(), milliseconds(500));

  const std::vector<int32_t> got = call.Finish().chunk_ids();

  ASSERT_GT(got.size(), 0);
  const std::vector<int32_t> all = whole.ids();
  for (size_t i = 0; i < std::min(got.size(), all.size()); ++i) {
    EXPECT_EQ(got[i], all[i]);
  }
}

TEST_F(E2eLateClientsTest, ADeadlineThatHasPassedIsAnEndLikeAnyOther) {
  for (int i = 0; i < 20; ++i) {
    Call call(system().stub(), Endless(), milliseconds(i / 4));
    EXPECT_EQ(call.Finish().status.error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
}

// The last round of a request and its cancellation meet in every order.
TEST_F(E2eLateClientsTest, CancellingAsTheTextEndsLeavesNothingBehind) {
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    Call call(system().stub(), GreedyRequest(kPrompt, 1 + i % 12));
    for (int reads = 0; reads < i % 4; ++reads) call.Read();

    call.Cancel();

    const grpc::StatusCode code = call.Finish().status.error_code();
    EXPECT_TRUE(code == grpc::StatusCode::OK ||
                code == grpc::StatusCode::CANCELLED);
  }
}

}  // namespace
}  // namespace bole::e2e
