#include "scheduler_service/links/discovery.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Hosts = absl::StatusOr<std::vector<std::string>>;

// Answers lookups as a script says, and keeps what is reported. After its last
// line the script repeats it.
class Resolver {
 public:
  explicit Resolver(std::vector<Hosts> script)
      : script_(script.begin(), script.end()) {}

  std::unique_ptr<Discovery> Discover(const std::string& name,
                                      milliseconds interval = milliseconds(1)) {
    absl::StatusOr<std::unique_ptr<Discovery>> discovery = Discovery::Start(
        {.name = name,
         .interval = interval,
         .look_up = [this](const std::string& host) { return LookUp(host); }},
        [this](const std::vector<std::string>& found) {
          std::string line;
          for (const std::string& address : found) line += address + " ";
          Note(line);
        },
        [this](const absl::Status& why) { Note(std::string(why.message())); });
    EXPECT_EQ(discovery.status(), absl::OkStatus());
    return *std::move(discovery);
  }

  // Waits until so many lookups have ended.
  void AwaitLookups(int count) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (lookups_ <= count) {
      if (!changed_.WaitUntil(mutex_, deadline)) {
        ADD_FAILURE() << "only " << lookups_ << " lookups";
        return;
      }
    }
  }
  // The next line that is reported.
  std::string NextReport() {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (reports_.empty()) {
      if (!changed_.WaitUntil(mutex_, deadline)) return "nothing";
    }
    std::string report = std::move(reports_.front());
    reports_.pop_front();
    return report;
  }
  bool HasReport() {
    MutexLock lock(mutex_);
    return !reports_.empty();
  }
  std::string host() {
    MutexLock lock(mutex_);
    return host_;
  }

 private:
  Hosts LookUp(const std::string& host) {
    MutexLock lock(mutex_);
    host_ = host;
    ++lookups_;
    changed_.NotifyAll();
    Hosts answer = script_.front();
    if (script_.size() > 1) script_.pop_front();
    return answer;
  }
  void Note(std::string report) {
    MutexLock lock(mutex_);
    reports_.push_back(std::move(report));
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<Hosts> script_;
  std::deque<std::string> reports_;
  int lookups_ = 0;
  std::string host_;
};

TEST(DiscoveryTest, ReportsSortedAddressesWithThePortEachOnce) {
  Resolver resolver({{{"10.0.0.9", "fd00::7", "10.0.0.10", "10.0.0.9"}}});
  const auto discovery = resolver.Discover("bole-workers:7101");

  EXPECT_EQ(resolver.NextReport(),
            "10.0.0.10:7101 10.0.0.9:7101 [fd00::7]:7101 ");
  EXPECT_EQ(resolver.host(), "bole-workers");
}

TEST(DiscoveryTest, ASetIsReportedWhenItIsAnotherAlone) {
  Resolver resolver(
      {{{"10.0.0.1", "10.0.0.2"}}, {{"10.0.0.2", "10.0.0.1"}}, {{"10.0.0.2"}}});
  const auto discovery = resolver.Discover("w:1");

  resolver.AwaitLookups(5);

  EXPECT_EQ(resolver.NextReport(), "10.0.0.1:1 10.0.0.2:1 ");
  EXPECT_EQ(resolver.NextReport(), "10.0.0.2:1 ");
  EXPECT_FALSE(resolver.HasReport());
}

TEST(DiscoveryTest, AnErrorIsToldAndTheSetStays) {
  Resolver resolver({{{"10.0.0.1"}},
                     absl::UnavailableError("no name server"),
                     std::vector<std::string>(),
                     {{"10.0.0.1"}}});
  const auto discovery = resolver.Discover("w:1");

  resolver.AwaitLookups(6);

  EXPECT_EQ(resolver.NextReport(), "10.0.0.1:1 ");
  EXPECT_EQ(resolver.NextReport(), "no name server");
  EXPECT_EQ(resolver.NextReport(), "'w' stands for no address");
  EXPECT_FALSE(resolver.HasReport());
}

TEST(DiscoveryTest, AnAddressIsReportedAsItIsAndNotLookedUp) {
  for (const char* name : {"127.0.0.1:50052", "[::1]:50052", "localhost:1"}) {
    Resolver resolver({absl::InternalError("looked up")});
    const auto discovery = resolver.Discover(name);

    EXPECT_EQ(resolver.NextReport(), std::string(name) + " ");
    EXPECT_FALSE(resolver.HasReport());
    EXPECT_EQ(resolver.host(), "");
  }
}

TEST(DiscoveryTest, TheCallerDoesNotWaitForTheResolver) {
  std::promise<void> release;
  std::atomic<bool> started = false;
  auto discovery = Discovery::Start(
      {.name = "w:1",
       .interval = hours(1),
       .look_up =
           [&, released = release.get_future().share()](const std::string&) {
             started = true;
             released.wait();
             return Hosts(absl::UnavailableError("slow"));
           }},
      [](const auto&) {}, [](const auto&) {});

  // Reached while the lookup runs, or before.
  ASSERT_EQ(discovery.status(), absl::OkStatus());
  release.set_value();
  discovery->reset();

  EXPECT_TRUE(started);
}

TEST(DiscoveryTest, DestructionDoesNotWaitForTheInterval) {
  Resolver resolver({{{"10.0.0.1"}}});
  auto discovery = resolver.Discover("w:1", hours(1));
  EXPECT_EQ(resolver.NextReport(), "10.0.0.1:1 ");

  const auto start = std::chrono::steady_clock::now();
  discovery.reset();

  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(DiscoveryTest, WhatIsNoNameWithAPortIsRefused) {
  for (const char* name : {"", "w", "w:", ":1", "w:0", "w:65536", "w:x",
                           "::1:1", "[w]:1", "[::1]"}) {
    SCOPED_TRACE(name);
    const absl::Status status =
        Discovery::Start(
            {.name = name}, [](const auto&) {}, [](const auto&) {})
            .status();

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

TEST(LookUpHostTest, TheSystemKnowsThisMachineAndNotANameThatCannotBe) {
  const Hosts here = LookUpHost("127.0.0.1");
  ASSERT_EQ(here.status(), absl::OkStatus());
  EXPECT_THAT(*here, ElementsAre("127.0.0.1"));

  // A label of 64 letters cannot be a name, so nobody is asked.
  EXPECT_EQ(LookUpHost(std::string(64, 'a')).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace bole
