#include "scheduler_service/scheduler_loop.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/catalogs.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::SimulatedWorker;
using ::std::chrono::milliseconds;
using ::std::chrono::seconds;
using ::std::chrono::steady_clock;

// A simulated worker on a thread of its own, as one behind a wire would be.
class ThreadedWorker : public WorkerClient {
 public:
  explicit ThreadedWorker(std::function<void(WorkerNews)> sink)
      : sink_(std::move(sink)), worker_(SimulatedWorker::SmallLimits()) {
    sink_(WorkerAdded{.name = "threaded", .client = this});
    sink_(worker_.Connect());
    thread_ = std::thread([this] { Run(); });
  }
  ~ThreadedWorker() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void Send(uint64_t epoch, uint64_t plan_number, const StepPlan& plan,
            const PlanTrace& trace) override {
    MutexLock lock(mutex_);
    worker_.Send(epoch, plan_number, plan, trace);
    changed_.NotifyAll();
  }
  void EndSpans(uint64_t epoch, const std::vector<SpanId>& spans) override {
    MutexLock lock(mutex_);
    worker_.EndSpans(epoch, spans);
  }
  void Close(uint64_t /*epoch*/) override {}
  void Disconnect(uint64_t epoch, const absl::Status& why) override {
    MutexLock lock(mutex_);
    worker_.Disconnect(epoch, why);
  }

  // Answers nothing until it is resumed.
  void Pause(bool paused) {
    MutexLock lock(mutex_);
    paused_ = paused;
    changed_.NotifyAll();
  }

 private:
  void Run() {
    while (std::optional<WorkerNews> answer = NextAnswer()) {
      sink_(*std::move(answer));  // May be the loop's turn, and call Send().
    }
  }

  // Empty: the worker stops.
  std::optional<WorkerNews> NextAnswer() {
    MutexLock lock(mutex_);
    while (!stopping_ && (paused_ || !worker_.has_plan())) {
      changed_.Wait(mutex_);
    }
    if (stopping_) return std::nullopt;
    return worker_.Run();
  }

  const std::function<void(WorkerNews)> sink_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  SimulatedWorker worker_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// A client that waits for what its stream has.
class Client {
 public:
  std::unique_ptr<Request> Ask(std::vector<int32_t> prompt, int max_tokens) {
    auto request = testing::MakeRequest(std::move(prompt), max_tokens,
                                        steady_clock::now());
    request->stream = std::make_shared<TokenStream>([this] {
      MutexLock lock(mutex_);
      ready_ = true;
      changed_.NotifyAll();
    });
    reader_.stream = request->stream;
    return request;
  }

  // Until the end, or until there are `num_tokens`.
  void Read(size_t num_tokens = SIZE_MAX) {
    while (!reader_.end && reader_.tokens.size() < num_tokens) {
      {
        MutexLock lock(mutex_);
        while (!ready_) changed_.Wait(mutex_);
        ready_ = false;
      }
      reader_.Read();
    }
  }
  Reader& reader() { return reader_; }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  Reader reader_;
};

class SchedulerLoopTest : public ::testing::Test {
 protected:
  SchedulerLoopTest() {
    loop_.Start([](WorkerId) { return true; });
  }

  void ExpectAllFree() {
    const SchedulerStatus status = loop_.status();
    EXPECT_EQ(status.audit, "");
    EXPECT_EQ(status.running + status.waiting, 0);
    EXPECT_EQ(status.slots.free, status.slots.total);
    EXPECT_EQ(status.pages.free, status.pages.total);
    EXPECT_EQ(loop_.load().requests, 0u);
    EXPECT_EQ(loop_.load().tokens, 0u);
  }

  const ModelCatalog catalog_ = testing::TinyCatalog({"simulated"});
  Metrics metrics_;
  SchedulerLoop loop_{SchedulerOptions{}, catalog_, metrics_};
  ThreadedWorker worker_{[this](WorkerNews news) {
    if (auto* outcome = std::get_if<WorkerOutcome>(&news)) {
      loop_.PostOutcome(WorkerId(0), std::move(*outcome));
    } else {
      loop_.Post({.worker = WorkerId(0), .news = std::move(news)});
    }
  }};
};

// Asks 25 times, and cancels a quarter of it.
void AskAndCheck(SchedulerLoop& loop, int seed) {
  std::mt19937 rng(seed);
  for (int i = 0; i < 25; ++i) {
    Client client;
    const std::vector<int32_t> prompt =
        RandomPrompt(rng, testing::UniformInt(rng, 1, 100));
    auto request = client.Ask(prompt, 20);
    ASSERT_FALSE(loop.Submit({&request, 1}).has_value());
    if (testing::UniformInt(rng, 0, 3) == 0) client.reader().stream->Cancel();
    client.Read();
    if (client.reader().end->ok()) {
      EXPECT_EQ(client.reader().tokens, SimulatedOutput(prompt, 20));
    } else {
      EXPECT_TRUE(absl::IsCancelled(client.reader().end->status()));
    }
  }
}

TEST_F(SchedulerLoopTest, ManyClientsAtOnceEachGetTheirText) {
  std::vector<std::thread> clients;
  clients.reserve(8);
  for (int seed = 0; seed < 8; ++seed) {
    clients.emplace_back([this, seed] { AskAndCheck(loop_, seed); });
  }
  for (std::thread& client : clients) client.join();

  EXPECT_TRUE(loop_.Drain(steady_clock::now() + seconds(60)));
  ExpectAllFree();
}

TEST_F(SchedulerLoopTest, DrainingFinishesWhatIsThereAndRefusesMore) {
  Client client;
  auto request = client.Ask({'x'}, 300);
  ASSERT_FALSE(loop_.Submit({&request, 1}).has_value());
  client.Read(1);

  EXPECT_TRUE(loop_.Drain(steady_clock::now() + seconds(60)));

  client.Read();
  EXPECT_TRUE(client.reader().end->ok());
  Client late;
  auto refused = late.Ask({'x'}, 3);
  const std::optional<Refusal> refusal = loop_.Submit({&refused, 1});
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kDraining);
  EXPECT_NE(refused, nullptr);
  ExpectAllFree();
}

TEST_F(SchedulerLoopTest, ADrainThatTakesTooLongIsEndedByStop) {
  Client client;
  auto request = client.Ask({'x'}, 300);
  worker_.Pause(true);
  ASSERT_FALSE(loop_.Submit({&request, 1}).has_value());

  EXPECT_FALSE(loop_.Drain(steady_clock::now() + milliseconds(20)));
  loop_.Stop();

  client.Read();
  EXPECT_TRUE(absl::IsUnavailable(client.reader().end->status()));
  ExpectAllFree();
}

TEST_F(SchedulerLoopTest, ADeadlineEndsARequestWhileTheWorkerHangs) {
  worker_.Pause(true);
  Client client;
  auto request = client.Ask({'x'}, 300);
  request->deadline = steady_clock::now() + milliseconds(20);
  ASSERT_FALSE(loop_.Submit({&request, 1}).has_value());

  client.Read();

  EXPECT_TRUE(absl::IsDeadlineExceeded(client.reader().end->status()));
  worker_.Pause(false);
}

}  // namespace
}  // namespace bole
