// As many calls as the door is told to allow, all from one connection.
#include <chrono>
#include <deque>
#include <memory>

#include "common/mutex.h"
#include "grpcpp/support/client_callback.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/scheduler_service/tiny_system.h"

namespace bole {
namespace {

using testing::SimulatedWorker;
using testing::TinySystem;

constexpr int kRunning = 1000;
constexpr int kWaiting = 5000;
constexpr int kTokens = 2;

// How all calls ended.
class Tally {
 public:
  void Add(const grpc::Status& status, int num_tokens) {
    MutexLock lock(mutex_);
    ++num_ended_;
    if (status.ok() && num_tokens == kTokens) ++num_whole_;
    changed_.NotifyAll();
  }
  void AwaitEnded(int num) {
    MutexLock lock(mutex_);
    while (num_ended_ < num) changed_.Wait(mutex_);
  }
  int num_whole() const {
    MutexLock lock(mutex_);
    return num_whole_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_whole_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One call, without a thread of its own.
class Stream : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Stream(v1::BoleService::Stub& stub, const v1::GenerateRequest& request,
         Tally& tally)
      : tally_(tally) {
    stub.async()->Generate(&context_, &request, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    num_tokens_ += response_.chunk().token_ids_size();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    tally_.Add(status, num_tokens_);
  }

 private:
  Tally& tally_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
  int num_tokens_ = 0;
};

StepLimits ManySlots() {
  StepLimits limits = SimulatedWorker::SmallLimits();
  limits.max_requests = kRunning;
  limits.num_slots = kRunning;
  limits.num_pages = 4 * kRunning;
  limits.max_nodes = 20 * kRunning;
  limits.max_prefill_tokens = 3 * kRunning;
  return limits;
}

TEST(ManyStreamsTest, FiveThousandWaitWhileAThousandRunAndAllAreAnswered) {
  SchedulerServerOptions options;
  options.door.max_open_requests = kRunning + kWaiting;
  options.scheduler.admission.max_requests = kRunning + kWaiting;
  options.scheduler.max_running = kRunning;
  options.worker_timeout = std::chrono::seconds(60);  // It is held up.
  TinySystem system(options, /*with_worker=*/true, ManySlots());
  system.worker.Hold();
  v1::GenerateRequest request;
  for (const int token : {'q', 'r', 's'}) {
    request.mutable_token_ids()->add_ids(token);
  }
  request.mutable_sampling_params()->set_max_tokens(kTokens);
  Tally tally;
  std::deque<Stream> streams;

  streams.emplace_back(*system.stub, request, tally);
  EXPECT_TRUE(system.AwaitLoad(1, 0));
  // While its round is not answered, the others wait. The next round takes as
  // many as can run.
  for (int i = 1; i < kRunning + kWaiting; ++i) {
    streams.emplace_back(*system.stub, request, tally);
  }
  EXPECT_TRUE(system.AwaitLoad(1, kRunning + kWaiting - 1));
  system.worker.AnswerOne();
  EXPECT_TRUE(system.AwaitLoad(kRunning, kWaiting));
  const grpc::Status refused = testing::OpenCall(system, request).Finish();
  system.worker.Release();
  tally.AwaitEnded(kRunning + kWaiting);

  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(), "too_many_open: 6000, of at most 6000");
  EXPECT_EQ(tally.num_whole(), kRunning + kWaiting);
  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

}  // namespace
}  // namespace bole
