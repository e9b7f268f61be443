#include "scheduler_service/door/grpc/response_writer.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::seconds;

// Notes what it is told. Send() returns once Release() was called, if Hold()
// was called before: so a test can look at what happens meanwhile.
class FakeSink : public ResponseSink {
 public:
  void Send(const v1::GenerateResponse& response) override {
    MutexLock lock(mutex_);
    ++num_sends_;
    ids_.insert(ids_.end(), response.chunk().token_ids().begin(),
                response.chunk().token_ids().end());
    sending_thread_ = std::this_thread::get_id();
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
  }
  void SendLast(const v1::GenerateResponse& response) override {
    MutexLock lock(mutex_);
    complete_ = response.complete();
    changed_.NotifyAll();
  }
  void End(const absl::Status& status) override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(end_.has_value()) << "ended twice";
    end_ = status;
    changed_.NotifyAll();
  }
  bool Break(const absl::Status& why) override {
    MutexLock lock(mutex_);
    broken_ = why;
    changed_.NotifyAll();
    return true;
  }

  void Hold() {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }

  void AwaitSends(int num) {
    MutexLock lock(mutex_);
    while (num_sends_ < num) changed_.Wait(mutex_);
  }
  absl::Status AwaitEnd() {
    MutexLock lock(mutex_);
    while (!end_) changed_.Wait(mutex_);
    return *end_;
  }
  absl::Status AwaitBreak() {
    MutexLock lock(mutex_);
    while (!broken_) changed_.Wait(mutex_);
    return *broken_;
  }
  v1::GenerateComplete AwaitComplete() {
    MutexLock lock(mutex_);
    while (!complete_) changed_.Wait(mutex_);
    return *complete_;
  }
  std::vector<int32_t> ids() const {
    MutexLock lock(mutex_);
    return ids_;
  }
  int num_sends() const {
    MutexLock lock(mutex_);
    return num_sends_;
  }
  std::thread::id sending_thread() const {
    MutexLock lock(mutex_);
    return sending_thread_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int num_sends_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int32_t> ids_ ABSL_GUARDED_BY(mutex_);
  std::thread::id sending_thread_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::GenerateComplete> complete_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> broken_ ABSL_GUARDED_BY(mutex_);
};

// A writer and its surroundings.
class ResponseWriterTest : public testing::Test {
 protected:
  ResponseWriter& Start(ResponseWriterOptions options = {}) {
    options.on_fault = [this](ReaderFault fault) { fault_.set_value(fault); };
    Request request;
    request.id = "mine";
    request.prompt = {1};
    writer_ =
        ResponseWriter::Create(request, std::move(options), sink_, delivery_);
    writer_->Start();
    return *writer_;
  }

  // Appends as the loop does.
  void Append(int32_t token) {
    writer_->stream()->Append({{.token = token, .logprob = -0.5f, .top = {}}},
                              "x");
  }
  void Append(int32_t first, int32_t last) {
    for (int32_t token = first; token <= last; ++token) Append(token);
  }

  std::shared_ptr<FakeSink> sink_ = std::make_shared<FakeSink>();
  TaskPool delivery_{/*num_threads=*/2, /*max_waiting=*/SIZE_MAX};
  std::shared_ptr<ResponseWriter> writer_;
  std::promise<ReaderFault> fault_;
};

TEST_F(ResponseWriterTest, TheLoopNeitherEncodesNorWaitsForAnEncoding) {
  Start();
  sink_->Hold();
  Append(1);
  sink_->AwaitSends(1);  // A thread is in the middle of it until Release().

  // The loop appends to the stream meanwhile, and ends it.
  auto loop = std::async(std::launch::async, [&] {
    Append(2, 1000);
    writer_->stream()->Finish(Completion{});
  });

  EXPECT_EQ(loop.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_NE(sink_->sending_thread(), std::this_thread::get_id());
  EXPECT_EQ(sink_->num_sends(), 1);
  sink_->Release();
  writer_->OnWriteDone(true);
  sink_->AwaitSends(2);
  writer_->OnWriteDone(true);
  EXPECT_EQ(sink_->AwaitComplete().output_ids_size(), 1000);
  EXPECT_EQ(sink_->ids().size(), 1000u);
}

TEST_F(ResponseWriterTest, NothingIsSentBeforeItStarts) {
  Request request;
  writer_ = ResponseWriter::Create(request, {}, sink_, delivery_);
  Append(1);

  EXPECT_EQ(sink_->num_sends(), 0);
  writer_->Start();

  sink_->AwaitSends(1);
}

TEST_F(ResponseWriterTest, WithoutChunksOnlyTheCompleteMessage) {
  ResponseWriter& writer = Start({.complete_only = true});
  Append(1, 50);
  writer.stream()->Finish(Completion{});

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
  EXPECT_GE(held.kept, sizeof(int32_t));
  writer.OnWriteDone(true);
  EXPECT_EQ(writer.held().waiting, 0u);
  EXPECT_GE(writer.held().kept, 1001 * sizeof(int32_t));
}

TEST_F(ResponseWriterTest, AReaderWhoFallsBehindIsEndedAndItsOutputFreed) {
  ResponseWriter& writer = Start({.stream = {.max_waiting_bytes = 1000}});
  Append(1);
  sink_->AwaitSends(1);

  Append(2, 100);

  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitBreak()));
  EXPECT_EQ(fault_.get_future().get(), ReaderFault::kBehind);
  EXPECT_TRUE(writer.stream()->cancelled());
  EXPECT_EQ(writer.held().total(), 0u);
  writer.OnCancel(/*overdue=*/false);
  writer.OnWriteDone(false);  // gRPC does both when a call is broken.
  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitEnd()));
}

TEST_F(ResponseWriterTest, AStalledReaderIsEndedInTheMiddleOfTheLastMessage) {
  ResponseWriter& writer = Start();
  Append(1);
  sink_->AwaitSends(1);
  writer.stream()->Finish(Completion{});
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
  EXPECT_TRUE(writer.stream()->cancelled());
  writer.OnWriteDone(false);

  EXPECT_TRUE(absl::IsCancelled(sink_->AwaitEnd()));
}

TEST_F(ResponseWriterTest, ALateCallIsLeftToTheLoop) {
  ResponseWriter& writer = Start();

  writer.OnCancel(/*overdue=*/true);

  EXPECT_FALSE(writer.stream()->cancelled());
  EXPECT_TRUE(absl::IsCancelled(sink_->AwaitEnd()));
}

TEST_F(ResponseWriterTest, NoTokenIsLostOrWrittenTwiceWhileWritesEnd) {
  constexpr int kTokens = 20'000;
  ResponseWriter& writer = Start({.stream = {.max_delta_bytes = 200}});
  std::thread loop([&] {
    Append(0, kTokens - 1);
    writer.stream()->Finish(Completion{});
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
  EXPECT_EQ(complete.output_ids_size(), kTokens);
}

TEST_F(ResponseWriterTest, AStreamMayOutliveTheCall) {
  Start();
  const std::shared_ptr<TokenStream> stream = writer_->stream();
  sink_.reset();

  stream->Append({{.token = 1, .logprob = 0, .top = {}}}, "x");
  writer_.reset();
  stream->Finish(Completion{});
}

}  // namespace
}  // namespace bole
