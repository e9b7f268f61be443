// A ResponseWriter between streams that a test writes and a call that it reads.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_WRITER_FIXTURE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_WRITER_FIXTURE_H_

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/tokenizer/tokenizer.h"
#include "gtest/gtest.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/messages/response_writer.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/door/watched_call.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole::testing {

// Notes what it is told. Send() returns once Release() was called, if Hold()
// was called before: so a test can look at what happens meanwhile.
class FakeSink : public ResponseSink {
 public:
  void Send(const v1::GenerateResponse& response) override {
    MutexLock lock(mutex_);
    ++num_sends_;
    Note(response);
    sending_thread_ = std::this_thread::get_id();
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
  }
  void SendLast(const v1::GenerateResponse& response) override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(end_.has_value()) << "ended twice";
    Note(response);
    end_ = absl::OkStatus();
    changed_.NotifyAll();
  }
  void End(const absl::Status& status, const v1::Usage& usage) override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(end_.has_value()) << "ended twice";
    end_ = status;
    usage_ = usage;
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
  // The complete message of the first choice, once the call has ended.
  v1::GenerateComplete AwaitComplete() {
    EXPECT_TRUE(AwaitEnd().ok());
    return completes()[0];
  }
  // By the number of the choice.
  std::map<uint32_t, v1::GenerateComplete> completes() const {
    MutexLock lock(mutex_);
    return completes_;
  }
  std::vector<int32_t> ids(uint32_t choice = 0) const {
    MutexLock lock(mutex_);
    const auto found = ids_.find(choice);
    return found != ids_.end() ? found->second : std::vector<int32_t>();
  }
  v1::Usage usage() const {
    MutexLock lock(mutex_);
    return usage_;
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
  void Note(const v1::GenerateResponse& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (response.has_complete()) {
      EXPECT_TRUE(
          completes_.emplace(response.complete().index(), response.complete())
              .second);
      return;
    }
    const v1::GenerateChunk& chunk = response.chunk();
    EXPECT_FALSE(completes_.contains(chunk.index())) << "after its end";
    std::vector<int32_t>& ids = ids_[chunk.index()];
    ids.insert(ids.end(), chunk.token_ids().begin(), chunk.token_ids().end());
  }

  mutable Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int num_sends_ ABSL_GUARDED_BY(mutex_) = 0;
  // By the number of the choice.
  std::map<uint32_t, std::vector<int32_t>> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, v1::GenerateComplete> completes_ ABSL_GUARDED_BY(mutex_);
  std::thread::id sending_thread_ ABSL_GUARDED_BY(mutex_);
  v1::Usage usage_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> broken_ ABSL_GUARDED_BY(mutex_);
};

struct WriterOptions {
  uint32_t num_choices = 1;
  bool chunks = true;
  TokenStreamLimits stream = {};
};

// A writer and its surroundings.
class ResponseWriterTest : public ::testing::Test {
 protected:
  void Create(const WriterOptions& options = {}) {
    ChoiceRequests choices;
    for (uint32_t i = 0; i < options.num_choices; ++i) {
      auto request = std::make_unique<Request>();
      request->id = "mine";
      request->choice = i;
      request->prompt = {1, 2};
      choices.requests.push_back(std::move(request));
    }
    writer_ = ResponseWriter::Create(
        choices,
        {.answer = {.model = model_,
                    .tokenizer = *tokenizer_,
                    .chunks = options.chunks},
         .stream = options.stream,
         .on_fault = [this](ReaderFault fault) { fault_.set_value(fault); }},
        sink_, delivery_);
    for (const auto& request : choices.requests) {
      streams_.push_back(request->stream);
    }
  }
  ResponseWriter& Start(const WriterOptions& options = {}) {
    Create(options);
    writer_->Start();
    return *writer_;
  }

  TokenStream& stream(uint32_t choice = 0) { return *streams_[choice]; }

  // Appends as the loop does.
  void AppendTo(uint32_t choice, int32_t token) {
    stream(choice).Append({{.token = token, .logprob = -0.5f, .top = {}}}, "x");
  }
  void Append(int32_t token) { AppendTo(0, token); }
  void Append(int32_t first, int32_t last) {
    for (int32_t token = first; token <= last; ++token) Append(token);
  }
  // As gRPC does. The first message has the number 1.
  void TakeMessages(int first, int last) {
    for (int sends = first; sends <= last; ++sends) {
      sink_->AwaitSends(sends);
      writer_->OnWriteDone(true);
    }
  }

  const std::string model_ = "tiny";
  const std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();

  std::shared_ptr<FakeSink> sink_ = std::make_shared<FakeSink>();
  TaskPool delivery_{/*num_threads=*/2, /*max_waiting=*/SIZE_MAX};
  std::shared_ptr<ResponseWriter> writer_;
  std::vector<std::shared_ptr<TokenStream>> streams_;
  std::promise<ReaderFault> fault_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_WRITER_FIXTURE_H_
