// The pool against names that change what they stand for.
#include "scheduler_service/links/worker_pool.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {
namespace {

using ::std::chrono::milliseconds;

// What is told of workers, and what names stand for.
class WorkerPoolTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> names) {
    WorkerPoolOptions options{.workers = std::move(names)};
    options.client.scheduler = {.name = "test", .instance = 1};
    options.discovery.interval = milliseconds(1);
    options.discovery.look_up = [this](const std::string& host) {
      MutexLock lock(mutex_);
      return hosts_[host];
    };
    auto pool = WorkerPool::Start(
        options, [this](const WorkerEvent& event) { Note(event); },
        [](const absl::Status&) {});
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  void SetHost(const std::string& host, std::vector<std::string> addresses) {
    MutexLock lock(mutex_);
    hosts_[host] = std::move(addresses);
  }

  // Waits until these are the workers that are there, by their names.
  bool Await(const std::vector<std::string>& want) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (Names() != want) {
      if (!changed_.WaitUntil(mutex_, end)) return false;
    }
    return true;
  }
  WorkerId IdOf(const std::string& name) {
    MutexLock lock(mutex_);
    return ids_.at(name);
  }

 private:
  void Note(const WorkerEvent& event) {
    MutexLock lock(mutex_);
    if (const auto* added = std::get_if<WorkerAdded>(&event.news)) {
      ids_.insert_or_assign(added->name, event.worker);
      there_[event.worker] = added->name;
    } else if (std::holds_alternative<WorkerRemoved>(event.news)) {
      there_.erase(event.worker);
    } else {
      EXPECT_TRUE(ids_.size() > 0) << "news of a worker before it was added";
    }
    changed_.NotifyAll();
  }
  std::vector<std::string> Names() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::map<std::string, bool> sorted;
    for (const auto& [id, name] : there_) sorted[name] = true;
    std::vector<std::string> names;
    names.reserve(sorted.size());
    for (const auto& [name, is_there] : sorted) names.push_back(name);
    return names;
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::vector<std::string>> hosts_
      ABSL_GUARDED_BY(mutex_);
  std::map<WorkerId, std::string> there_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, WorkerId> ids_ ABSL_GUARDED_BY(mutex_);

 protected:
  std::unique_ptr<WorkerPool> pool_;  // Uses the rest: last.
};

TEST_F(WorkerPoolTest, ANameBringsAndTakesWorkersAsItChanges) {
  SetHost("fleet", {"127.0.0.2", "127.0.0.3"});
  Start({"fleet:1"});
  ASSERT_TRUE(Await({"127.0.0.2:1", "127.0.0.3:1"}));

  SetHost("fleet", {"127.0.0.3", "127.0.0.4"});

  EXPECT_TRUE(Await({"127.0.0.3:1", "127.0.0.4:1"}));
}

TEST_F(WorkerPoolTest, AnAddressThatTwoNamesStandForIsOneWorker) {
  SetHost("a", {"127.0.0.2"});
  SetHost("b", {"127.0.0.2", "127.0.0.3"});
  Start({"a:1", "b:1", "127.0.0.9:1"});
  ASSERT_TRUE(Await({"127.0.0.2:1", "127.0.0.3:1", "127.0.0.9:1"}));

  SetHost("b", {"127.0.0.3"});
  SetHost("a", {"127.0.0.5"});

  EXPECT_TRUE(Await({"127.0.0.3:1", "127.0.0.5:1", "127.0.0.9:1"}));
}

TEST_F(WorkerPoolTest, AWorkerIsLetGoUnlessItCameBack) {
  SetHost("fleet", {"127.0.0.2", "127.0.0.3"});
  Start({"fleet:1"});
  ASSERT_TRUE(Await({"127.0.0.2:1", "127.0.0.3:1"}));
  const WorkerId second = IdOf("127.0.0.2:1");
  const WorkerId third = IdOf("127.0.0.3:1");
  SetHost("fleet", {"127.0.0.4"});
  ASSERT_TRUE(Await({"127.0.0.4:1"}));
  SetHost("fleet", {"127.0.0.3", "127.0.0.4"});
  ASSERT_TRUE(Await({"127.0.0.3:1", "127.0.0.4:1"}));

  EXPECT_TRUE(pool_->LetGo(second));
  EXPECT_FALSE(pool_->LetGo(third));

  EXPECT_EQ(IdOf("127.0.0.3:1"), third);
  SetHost("fleet", {"127.0.0.2", "127.0.0.4"});
  ASSERT_TRUE(Await({"127.0.0.2:1", "127.0.0.4:1"}));
  EXPECT_NE(IdOf("127.0.0.2:1"), second);
}

TEST_F(WorkerPoolTest, WhatIsNoAddressIsRefused) {
  const auto pool = WorkerPool::Start(
      {.workers = {"fleet"}}, [](const WorkerEvent&) {},
      [](const absl::Status&) {});

  EXPECT_TRUE(absl::IsInvalidArgument(pool.status())) << pool.status();
}

}  // namespace
}  // namespace bole
