#include "scheduler_service/door/messages/response_writer.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/door/messages/response_writer_fixture.h"

namespace bole {
namespace {

using std::chrono::seconds;
using testing::ResponseWriterTest;

TEST_F(ResponseWriterTest, TheLoopNeitherEncodesNorWaitsForAnEncoding) {
  Start();
  sink_->Hold();
  Append(1);
  sink_->AwaitSends(1);  // A thread is in the middle of it until Release().

  // The loop appends to the stream meanwhile, and ends it.
  auto loop = std::async(std::launch::async, [&] {
    Append(2, 1000);
    stream().Finish(Completion{});
  });

  EXPECT_EQ(loop.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_NE(sink_->sending_thread(), std::this_thread::get_id());
  EXPECT_EQ(sink_->num_sends(), 1);
  sink_->Release();
  writer_->OnWriteDone(true);
  sink_->AwaitSends(2);
  writer_->OnWriteDone(true);
  EXPECT_EQ(sink_->AwaitComplete().usage().completion_tokens(), 1000u);
  EXPECT_EQ(sink_->ids().size(), 1000u);
}

TEST_F(ResponseWriterTest, NothingIsSentBeforeItStarts) {
  Create();
  Append(1);

  EXPECT_EQ(sink_->num_sends(), 0);
  writer_->Start();

  sink_->AwaitSends(1);
}

TEST_F(ResponseWriterTest, WithoutChunksOnlyTheCompleteMessage) {
  Start({.chunks = false});
  Append(1, 50);
  stream().Finish(Completion{});

  EXPECT_EQ(sink_->AwaitComplete().output_ids_size(), 50);
  EXPECT_EQ(sink_->num_sends(), 0);
}

TEST_F(ResponseWriterTest, WhatIsHeldIsCounted) {
  ResponseWriter& writer = Start();
  Append(1);
  sink_->AwaitSends(1);
  Append(2, 1001);

  const HeldOutput held = writer.held();

  ASSERT_TRUE(held.write.has_value());
  EXPECT_GT(held.write->bytes, 0u);
  EXPECT_GE(held.waiting, 1000 * sizeof(EmittedToken));
  EXPECT_EQ(held.kept, 0u);
  writer.OnWriteDone(true);
  EXPECT_EQ(writer.held().waiting, 0u);
}

TEST_F(ResponseWriterTest, AReaderWhoFallsBehindIsEndedAndItsOutputFreed) {
  ResponseWriter& writer = Start({.stream = {.max_waiting_bytes = 1000}});
  Append(1);
  sink_->AwaitSends(1);

  Append(2, 100);

  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitBreak()));
  EXPECT_EQ(fault_.get_future().get(), ReaderFault::kBehind);
  EXPECT_TRUE(stream().cancelled());
  EXPECT_EQ(writer.held().total(), 0u);
  writer.OnCancel(/*overdue=*/false);
  writer.OnWriteDone(false);  // gRPC does both when a call is broken.
  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitEnd()));
}

TEST_F(ResponseWriterTest, AStalledReaderIsEndedInTheMiddleOfTheLastMessage) {
  ResponseWriter& writer = Start();
  Append(1);
  sink_->AwaitSends(1);
  stream().Finish(Completion{});
  writer.OnWriteDone(true);
  sink_->AwaitComplete();
  ASSERT_TRUE(writer.held().write.has_value());

  writer.EndForReader(ReaderFault::kStalled);
  writer.EndForReader(ReaderFault::kStalled);

  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitBreak()));
  EXPECT_EQ(fault_.get_future().get(), ReaderFault::kStalled);
}

TEST_F(ResponseWriterTest, AnIdleCallThatIsEndedHasNothingToBreak) {
  ResponseWriter& writer = Start();

  writer.EndForReader(ReaderFault::kDoorFull);

  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitEnd()));
  EXPECT_EQ(fault_.get_future().get(), ReaderFault::kDoorFull);
}

TEST_F(ResponseWriterTest, ACancelledCallEndsWhenItsWriteHasEnded) {
  ResponseWriter& writer = Start();
  Append(1);
  sink_->AwaitSends(1);

  writer.OnCancel(/*overdue=*/false);
  EXPECT_TRUE(stream().cancelled());
  writer.OnWriteDone(false);

  EXPECT_TRUE(absl::IsCancelled(sink_->AwaitEnd()));
}

TEST_F(ResponseWriterTest, ALateCallIsLeftToTheLoop) {
  ResponseWriter& writer = Start();

  writer.OnCancel(/*overdue=*/true);

  EXPECT_FALSE(stream().cancelled());
  EXPECT_TRUE(absl::IsCancelled(sink_->AwaitEnd()));
}

TEST_F(ResponseWriterTest, NoTokenIsLostOrWrittenTwiceWhileWritesEnd) {
  constexpr int kTokens = 20'000;
  ResponseWriter& writer = Start({.stream = {.max_delta_bytes = 200}});
  std::thread loop([&] {
    Append(0, kTokens - 1);
    stream().Finish(Completion{});
  });

  std::thread grpc([&] {
    bool last = false;
    for (int sends = 1; !last; ++sends) {
      sink_->AwaitSends(sends);
      last = sink_->ids().size() == kTokens;
      writer.OnWriteDone(true);
    }
  });
  const v1::GenerateComplete complete = sink_->AwaitComplete();
  loop.join();
  grpc.join();

  const std::vector<int32_t> ids = sink_->ids();
  ASSERT_EQ(ids.size(), kTokens);
  for (int i = 0; i < kTokens; ++i) ASSERT_EQ(ids[i], i);
  EXPECT_EQ(complete.usage().completion_tokens(), kTokens);
}

TEST_F(ResponseWriterTest, AStreamMayOutliveTheCall) {
  Start();
  const std::shared_ptr<TokenStream> stream = streams_[0];
  sink_.reset();

  stream->Append({{.token = 1, .logprob = 0, .top = {}}}, "x");
  writer_.reset();
  stream->Finish(Completion{});
}

}  // namespace
}  // namespace bole
