// Two pools of clients and the workers that they share, all of them real but
// for the workers' engines.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/share.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/links/worker_pool.h"
#include "tests/testing/random_step.h"
#include "tests/worker_service/serving/served_worker.h"
#include "worker_service/serving/worker_service.h"

namespace bole {
namespace {

using ::bole::testing::RandomPlanLimits;
using ::bole::testing::ServedWorker;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool Eventually(const std::function<bool()>& condition) {
  const auto end = steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

WorkerServiceOptions WorkerOptions(const std::string& model) {
  return {.info = {.model = model, .limits = RandomPlanLimits()},
          .heartbeat_interval = milliseconds(20),
          .scheduler_timeout = milliseconds(500)};
}

// A pool, and the part of a scheduler that has nothing to do but to let workers
// go that drain.
class Sharer {
 public:
  Sharer(const std::vector<std::unique_ptr<ServedWorker>>& workers,
         uint64_t instance, Place first_place)
      : place_(first_place) {
    WorkerPoolOptions options;
    for (const auto& worker : workers) {
      options.workers.push_back(worker->address());
    }
    options.client.scheduler = {.name = absl::StrCat("s", instance),
                                .instance = instance};
    options.client.min_backoff = milliseconds(5);
    options.client.max_backoff = milliseconds(10);
    options.client.look_interval = milliseconds(10);
    options.shared = SharedPoolOptions{
        .claims = {.retry = milliseconds(20), .settle = milliseconds(100)},
        .place_of = [this](const std::string&) { return place(); },
        .model_of =
            [](const WorkerDescription& worker) -> absl::StatusOr<std::string> {
          if (worker.model == "demo") return worker.model;
          return absl::AbortedError("another model");
        },
        .tick = milliseconds(5)};
    pool_ = *WorkerPool::Start(
        options, [this](const WorkerEvent& event) { Note(event); },
        [](const absl::Status&) {});
  }

  void SetPlace(Place place) {
    MutexLock lock(mutex_);
    place_ = place;
  }
  int num_held() {
    MutexLock lock(mutex_);
    return static_cast<int>(held_.size());
  }
  std::string ErrorOf(int worker) {
    MutexLock lock(mutex_);
    return errors_[WorkerId(worker)];
  }
  WorkerPool& pool() { return *pool_; }
  // As a scheduler that ends: closes the workers in order.
  void CloseAll() {
    MutexLock lock(mutex_);
    for (const auto& [worker, epoch] : held_) clients_[worker]->Close(epoch);
  }
  void Kill() { pool_.reset(); }

 private:
  std::optional<Place> place() {
    MutexLock lock(mutex_);
    return place_;
  }
  void Note(const WorkerEvent& event) {
    MutexLock lock(mutex_);
    if (const auto* added = std::get_if<WorkerAdded>(&event.news)) {
      clients_[event.worker] = added->client;
    } else if (const auto* in = std::get_if<WorkerConnected>(&event.news)) {
      held_[event.worker] = in->epoch;
    } else if (const auto* out = std::get_if<WorkerDraining>(&event.news)) {
      if (out->draining) clients_[event.worker]->Close(out->epoch);
    } else if (const auto* lost = std::get_if<WorkerLost>(&event.news)) {
      held_.erase(event.worker);
      errors_[event.worker] = lost->why.ToString();
    }
  }

  Mutex mutex_;
  Place place_ ABSL_GUARDED_BY(mutex_);
  std::map<WorkerId, WorkerClient*> clients_ ABSL_GUARDED_BY(mutex_);
  std::map<WorkerId, uint64_t> held_ ABSL_GUARDED_BY(mutex_);  // Epochs.
  std::map<WorkerId, std::string> errors_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerPool> pool_;
};

class SharedWorkerPoolTest : public ::testing::Test {
 protected:
  void StartWorkers(const std::vector<std::string>& models) {
    for (const std::string& model : models) {
      workers_.push_back(std::make_unique<ServedWorker>(WorkerOptions(model)));
    }
  }
  Sharer& Start(Place place) {
    sharers_.push_back(
        std::make_unique<Sharer>(workers_, sharers_.size() + 1, place));
    return *sharers_.back();
  }

  std::vector<std::unique_ptr<ServedWorker>> workers_;
  std::vector<std::unique_ptr<Sharer>> sharers_;
};

TEST_F(SharedWorkerPoolTest, ANewcomerGetsItsShareFromWhoHasTheSurplus) {
  StartWorkers({"demo", "demo", "demo"});
  Sharer& first = Start({.rank = 0, .of = 1});
  ASSERT_TRUE(Eventually([&] { return first.num_held() == 3; }));

  Sharer& second = Start({.rank = 1, .of = 2});
  first.SetPlace({.rank = 0, .of = 2});

  EXPECT_TRUE(Eventually(
      [&] { return first.num_held() == 2 && second.num_held() == 1; }));
  EXPECT_EQ(first.pool().shares().num_given_back, 1);
  EXPECT_EQ(second.pool().shares().num_claimed, 1);
}

TEST_F(SharedWorkerPoolTest, WhoIsKilledIsInheritedFrom) {
  StartWorkers({"demo", "demo", "demo", "demo"});
  Sharer& first = Start({.rank = 0, .of = 2});
  Sharer& second = Start({.rank = 1, .of = 2});
  ASSERT_TRUE(Eventually(
      [&] { return first.num_held() == 2 && second.num_held() == 2; }));

  first.Kill();
  second.SetPlace({.rank = 0, .of = 1});

  EXPECT_TRUE(Eventually([&] { return second.num_held() == 4; }));
}

TEST_F(SharedWorkerPoolTest, WhoLeavesDoesNotTakeBackWhatItCloses) {
  StartWorkers({"demo", "demo"});
  Sharer& only = Start({.rank = 0, .of = 1});
  ASSERT_TRUE(Eventually([&] { return only.num_held() == 2; }));
  only.pool().Leave();

  only.CloseAll();

  ASSERT_TRUE(Eventually([&] { return only.num_held() == 0; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(only.num_held(), 0);
}

TEST_F(SharedWorkerPoolTest, WhatIsNotHeldSaysWhy) {
  StartWorkers({"demo", "other"});
  Sharer& first = Start({.rank = 0, .of = 1});
  ASSERT_TRUE(Eventually([&] { return first.num_held() == 1; }));
  Sharer& none = Start({.rank = 1, .of = 2});
  Sharer& second = Start({.rank = 0, .of = 1});

  EXPECT_TRUE(Eventually([&] {
    return none.ErrorOf(0).find("left to other schedulers") !=
               std::string::npos &&
           none.ErrorOf(1) == "ABORTED: another model" &&
           second.ErrorOf(0).find("the worker obeys scheduler s1") !=
               std::string::npos;
  }));
  EXPECT_EQ(none.num_held() + second.num_held(), 0);
}

}  // namespace
}  // namespace bole
