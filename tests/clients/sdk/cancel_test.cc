// Calls that are cancelled, by their callers or by the end of their client.
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "clients/sdk/call_error.h"
#include "clients/sdk/cancellation.h"
#include "clients/sdk/client.h"
#include "clients/sdk/generation.h"
#include "clients/sdk/requests.h"
#include "clients/sdk/retry_policy.h"
#include "gtest/gtest.h"
#include "tests/clients/fake_bole_service.h"
#include "tests/clients/sdk/client_fixture.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using testing_support::AnswerOf;
using testing_support::FakeAnswer;
using testing_support::Gathered;
using testing_support::QueueIsFull;
using testing_support::Quick;

using CancelTest = testing_support::ClientTest;

TEST_F(CancelTest, AnotherThreadCancelsAStreamThatIsRead) {
  FakeAnswer hanging = AnswerOf({"a"});
  hanging.responses.pop_back();
  hanging.hang = true;
  server_.service().SetAnswers({hanging});
  const auto client = NewClient();
  const auto stream = client->Generate(TextRequest("hi"));
  ASSERT_NE(stream->Next(), nullptr);

  std::thread other([&] { stream->Cancel(); });
  EXPECT_EQ(stream->Next(), nullptr);
  other.join();

  EXPECT_EQ(ReadError(stream->status()).kind(), ErrorKind::kCancelled);
  server_.service().WaitForCancelled(1);
  EXPECT_EQ(num_requests(), 1u);
}

TEST_F(CancelTest, AnotherThreadEndsTheWaitForARetry) {
  server_.service().SetAnswers({QueueIsFull("full", 60000)});
  const auto client = NewClient();
  Cancellation cancellation;
  const auto stream =
      client->Generate(TextRequest("hi"), {.cancellation = &cancellation});

  std::thread other([&] {
    while (num_requests() == 0) std::this_thread::yield();
    cancellation.Cancel();
  });
  EXPECT_EQ(stream->Next(), nullptr);
  other.join();

  EXPECT_EQ(ReadError(stream->status()).kind(), ErrorKind::kCancelled);
}

TEST_F(CancelTest, AnAsyncAnswerIsCancelledWhileItStreamsAndWhileItWaits) {
  for (const FakeAnswer& answer :
       {FakeAnswer{.hang = true}, QueueIsFull("full", 60000)}) {
    server_.service().SetAnswers({answer});
    const size_t before = num_requests();
    const auto client = NewClient();
    Gathered gathered;
    const auto call =
        client->GenerateAsync(TextRequest("hi"), gathered.Handlers());
    while (num_requests() == before) std::this_thread::yield();

    call->Cancel();

    EXPECT_EQ(ReadError(gathered.done.get_future().get()).kind(),
              ErrorKind::kCancelled);
  }
}

// A caller's own record of a call may have both the call and its handlers.
TEST_F(CancelTest, AnAsyncAnswerThatHasEndedLetsItsHandlersGo) {
  struct Record {
    std::shared_ptr<AsyncGeneration> call;
    std::promise<void> done;
  };
  server_.service().SetAnswers({AnswerOf({"a"})});
  const auto client = NewClient();
  auto record = std::make_shared<Record>();
  const std::weak_ptr<Record> kept = record;
  std::future<void> done = record->done.get_future();
  record->call = client->GenerateAsync(
      TextRequest("hi"),
      {.on_event = [](const v1::GenerateResponse&) {},
       .on_done = [record](
                      const absl::Status&,
                      const GenerationStats&) { record->done.set_value(); }});

  done.wait();
  record.reset();
  while (!kept.expired()) std::this_thread::yield();
}

// The refusal may have arrived when the caller cancels.
TEST(GenerationTest, ACancelWinsOverWhatItsAttemptCameTo) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::RESOURCE_EXHAUSTED,
        grpc::StatusCode::CANCELLED}) {
    Generation generation(TextRequest("hi"), RetryPolicy(), std::nullopt,
                          /*jitter_seed=*/1);
    const auto now = std::chrono::steady_clock::now();
    generation.Begin(now);

    EXPECT_FALSE(generation.End({code, "x"}, /*cancelled=*/true, now));
    EXPECT_TRUE(absl::IsCancelled(generation.status())) << generation.status();
    EXPECT_EQ(generation.stats().retries, 0);
  }
}

TEST(GenerationTest, ACancelTakesNothingFromAWholeAnswer) {
  Generation generation(TextRequest("hi"), RetryPolicy(), std::nullopt,
                        /*jitter_seed=*/1);
  const auto now = std::chrono::steady_clock::now();
  generation.Begin(now);
  v1::GenerateResponse response;
  response.mutable_complete();
  EXPECT_TRUE(generation.Take(response));

  EXPECT_FALSE(generation.End({grpc::StatusCode::CANCELLED, ""},
                              /*cancelled=*/true, now));
  EXPECT_TRUE(generation.status().ok()) << generation.status();
}

// Calls fail all the time, so that a cancel meets their start, their end or the
// wait between.
TEST_F(CancelTest, ACancelEndsACallWheneverItComes) {
  server_.service().SetAnswers(
      {{.status = {grpc::StatusCode::UNAVAILABLE, "no worker"}}});
  ClientOptions options = Quick(server_.address());
  options.retry.max_attempts = 1'000'000;
  const auto client = NewClient(options);
  constexpr auto kPrompt = std::chrono::seconds(10);
  for (int i = 0; i < 300; ++i) {
    const auto wait = std::chrono::microseconds(i * 37 % 6000);
    Gathered gathered;
    const auto call =
        client->GenerateAsync(TextRequest("hi"), gathered.Handlers());
    std::this_thread::sleep_for(wait);
    call->Cancel();
    auto done = gathered.done.get_future();
    ASSERT_EQ(done.wait_for(kPrompt), std::future_status::ready);
    const absl::Status async = done.get();
    EXPECT_TRUE(absl::IsCancelled(async)) << async;

    Cancellation cancellation;
    std::thread other([&] {
      std::this_thread::sleep_for(wait);
      cancellation.Cancel();
    });
    const auto start = std::chrono::steady_clock::now();
    const CallOptions with_cancel{.cancellation = &cancellation};
    const auto stream = client->Generate(TextRequest("hi"), with_cancel);
    EXPECT_EQ(stream->Next(), nullptr);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kPrompt);
    EXPECT_TRUE(absl::IsCancelled(stream->status())) << stream->status();
    other.join();
  }
}

TEST_F(CancelTest, AClientThatGoesEndsItsAsyncAnswers) {
  server_.service().SetAnswers({{.hang = true}});
  std::vector<Gathered> gathered(20);
  {
    const auto client = NewClient();
    for (Gathered& one : gathered) {
      client->GenerateAsync(TextRequest("hi"), one.Handlers());
    }
  }
  for (Gathered& one : gathered) {
    EXPECT_TRUE(absl::IsCancelled(one.done.get_future().get()));
  }
}

}  // namespace
}  // namespace bole
