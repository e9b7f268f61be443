// A client that stops reading delays nobody else, and gets everything when it
// reads on.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/client_context.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

constexpr char kPrompt[] = "def fibonacci(n):\n";

// A connection on which the server can send a few KB that nobody reads.
std::unique_ptr<v1::BoleService::Stub> NarrowStub(const System& system) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  return v1::BoleService::NewStub(system.NewChannel(arguments));
}

constexpr int kTokens = 300;

// About 130 KB for 300 tokens: 450 bytes for the logprobs of a token.
v1::GenerateRequest LargeRequest(int max_tokens = kTokens) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, max_tokens);
  request.mutable_sampling_params()->set_logprobs(20);
  return request;
}

TEST(E2eSlowReaderTest, OthersFinishWhileItIsStalledAndItMissesNothing) {
  System system;
  const Generation want = Generate(system.stub(), GreedyRequest(kPrompt, 100));
  const auto narrow = NarrowStub(system);
  Call slow(*narrow, LargeRequest());
  ASSERT_TRUE(system.WaitForLoad(1, 0));

  for (int i = 0; i < 3; ++i) {
    const Generation other =
        Generate(system.stub(), GreedyRequest(kPrompt, 100));
    EXPECT_EQ(other.ids(), want.ids());
  }
  // The loop is done with the slow one too, though it has read nothing.
  system.ExpectIdle();
  const Generation& got = slow.Finish();

  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.ids().size(), kTokens);
  EXPECT_EQ(got.logprobs().size(), kTokens);
  // What it did not take was merged: it was stalled indeed.
  EXPECT_LT(got.chunks.size(), got.complete->speculation().rounds() / 2);
}

TEST(E2eSlowReaderTest, StalledCallsAreBoundedAndGoWhenTheirClientsGo) {
  SystemOptions options;
  options.door.max_open_requests = 3;
  System system(options);
  const auto narrow = NarrowStub(system);
  std::vector<std::unique_ptr<Call>> stalled;
  stalled.reserve(3);
  for (int i = 0; i < 3; ++i) {
    stalled.push_back(std::make_unique<Call>(*narrow, LargeRequest()));
  }
  ASSERT_TRUE(system.WaitForLoad(3, 0));
  system.ExpectIdle();

  const Generation refused = Generate(system.stub(), GreedyRequest(kPrompt, 1));
  stalled.clear();

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(refused.error.retry_after.has_value());
  EXPECT_TRUE(Eventually([&] {
    return Generate(system.stub(), GreedyRequest(kPrompt, 1)).status.ok();
  }));
  system.ExpectIdle();
}

void ExpectEndedFor(const Generation& got, const std::string& why) {
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(got.status.error_message().find(why), std::string::npos)
      << got.status.error_message();
}

TEST(E2eSlowReaderTest, OneThatFallsTooFarBehindIsEndedBeforeItsText) {
  SystemOptions options;
  options.door.max_undelivered_bytes = 8 << 10;
  System system(options);
  const auto narrow = NarrowStub(system);
  Call slow(*narrow, LargeRequest(4000));
  ASSERT_TRUE(system.WaitForLoad(1, 0));

  // It would run for much longer.
  system.ExpectIdle();
  const Generation other = Generate(system.stub(), GreedyRequest(kPrompt, 100));

  EXPECT_TRUE(other.status.ok());
  const Generation& got = slow.Finish();
  ExpectEndedFor(got, "fell behind");
  EXPECT_LT(got.ids().size(), 1000u);
}

TEST(E2eSlowReaderTest, OneOfSeveralChoicesFallsBehindAsOneCall) {
  SystemOptions options;
  options.door.max_undelivered_bytes = 32 << 10;
  System system(options);
  const auto narrow = NarrowStub(system);
  v1::GenerateRequest request = LargeRequest(4000);
  request.set_n(4);

  grpc::ClientContext context;
  const auto slow = narrow->Generate(&context, request);
  ASSERT_TRUE(system.WaitForLoad(4, 0));
  system.ExpectIdle();

  std::vector<int> tokens(4);
  v1::GenerateResponse response;
  while (slow->Read(&response)) {
    EXPECT_TRUE(response.has_chunk());
    tokens.at(response.chunk().index()) += response.chunk().token_ids_size();
  }
  const grpc::Status status = slow->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("fell behind"), std::string::npos);
  // 200 bytes wait for a token. Alone each could have had four times as many.
  for (const int count : tokens) EXPECT_LT(count, 120);
}

TEST(E2eSlowReaderTest, OneThatReadsNothingIsEndedAndFreesItsPlace) {
  SystemOptions options;
  options.door.max_open_requests = 1;
  options.door.stalled_reader = std::chrono::milliseconds(300);
  System system(options);
  const auto narrow = NarrowStub(system);
  Call stalled(*narrow, LargeRequest(120));
  ASSERT_TRUE(system.WaitForLoad(1, 0));

  // Nobody reads or cancels the first call.
  EXPECT_TRUE(Eventually([&] {
    return Generate(system.stub(), GreedyRequest(kPrompt, 1)).status.ok();
  }));

  ExpectEndedFor(stalled.Finish(), "stopped reading");
  system.ExpectIdle();
}

TEST(E2eSlowReaderTest, TogetherTheyHoldNoMoreThanTheDoorAllows) {
  SystemOptions options;
  options.door.max_output_bytes = 256 << 10;  // One of them fits.
  // However slow the machine is.
  options.door.stalled_reader = std::chrono::minutes(10);
  System system(options);
  const auto narrow = NarrowStub(system);
  std::vector<std::unique_ptr<Call>> slow;
  slow.reserve(4);
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<Call>(*narrow, LargeRequest()));
  }
  ASSERT_TRUE(system.WaitForLoad(4, 0));
  system.ExpectIdle();

  EXPECT_TRUE(Eventually([&] {
    return Generate(system.stub(), GreedyRequest(kPrompt, 10)).status.ok();
  })) << "there is room again for one that reads";

  int num_ended = 0;
  for (const auto& call : slow) {
    const Generation& got = call->Finish();
    if (got.status.ok()) continue;
    ++num_ended;
    ExpectEndedFor(got, "holds too much");
  }
  EXPECT_GT(num_ended, 0);
  EXPECT_LT(num_ended, 4);
}

}  // namespace
}  // namespace bole::e2e
