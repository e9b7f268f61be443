#include "scheduler_service/door/open_calls.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

const TimePoint kNow = TimePoint() + seconds(1000);

HeldOutput Waiting(size_t bytes) { return {.waiting = bytes}; }
HeldOutput Kept(size_t bytes) { return {.kept = bytes}; }
HeldOutput Writing(size_t bytes, seconds ago) {
  return {.write = WriteUnderWay{.bytes = bytes, .started = kNow - ago}};
}

using Verdicts = std::vector<std::pair<size_t, ReaderFault>>;

Verdicts Judge(const std::vector<HeldOutput>& held, size_t max_bytes) {
  const OpenCallsLimits limits = {.max_held_bytes = max_bytes,
                                  .stalled_after = seconds(10)};
  Verdicts verdicts;
  for (const ReaderVerdict& verdict : JudgeReaders(held, limits, kNow)) {
    verdicts.emplace_back(verdict.call, verdict.fault);
  }
  return verdicts;
}

TEST(JudgeReadersTest, AMessageThatIsNotTakenInTimeIsStalled) {
  const std::vector<HeldOutput> held = {
      Writing(1000, seconds(9)), Writing(1000, seconds(11)), Waiting(1000)};

  EXPECT_EQ(Judge(held, SIZE_MAX), (Verdicts{{1, ReaderFault::kStalled}}));
}

TEST(JudgeReadersTest, ALargeMessageHasASecondMoreForEach64KiB) {
  const std::vector<HeldOutput> held = {Writing(10 << 20, seconds(169)),
                                        Writing(10 << 20, seconds(171))};

  EXPECT_EQ(Judge(held, SIZE_MAX), (Verdicts{{1, ReaderFault::kStalled}}));
}

TEST(JudgeReadersTest, NobodyIsEndedWhileAllFit) {
  EXPECT_EQ(
      Judge({Waiting(500'000), Kept(400'000), Waiting(100'000)}, 1'000'000),
      Verdicts());
}

TEST(JudgeReadersTest, TheReadersFurthestBehindAreEndedUntilTheRestFits) {
  const std::vector<HeldOutput> held = {Waiting(200'000), Waiting(400'000),
                                        Waiting(300'000), Waiting(100'000)};

  EXPECT_EQ(Judge(held, 310'000), (Verdicts{{1, ReaderFault::kDoorFull},
                                            {2, ReaderFault::kDoorFull}}));
}

TEST(JudgeReadersTest, AReaderBehindIsEndedBeforeOneWhoseOutputIsKept) {
  const std::vector<HeldOutput> held = {Kept(900'000), Waiting(100'000)};

  EXPECT_EQ(Judge(held, 950'000), (Verdicts{{1, ReaderFault::kDoorFull}}));
}

TEST(JudgeReadersTest, WithNobodyBehindTheOneThatHoldsMostIsEnded) {
  const std::vector<HeldOutput> held = {Kept(500'000), Waiting(1'000),
                                        Kept(600'000)};

  EXPECT_EQ(Judge(held, 1'000'000), (Verdicts{{2, ReaderFault::kDoorFull}}));
}

TEST(JudgeReadersTest, StalledCallsMakeRoomFirst) {
  const std::vector<HeldOutput> held = {Waiting(500'000),
                                        Writing(1'000'000, seconds(60))};

  EXPECT_EQ(Judge(held, 600'000), (Verdicts{{1, ReaderFault::kStalled}}));
}

class FakeCall : public WatchedCall {
 public:
  explicit FakeCall(HeldOutput held) : held_(held) {}

  HeldOutput held() const override {
    MutexLock lock(mutex_);
    return held_;
  }
  void EndForReader(ReaderFault fault) override {
    MutexLock lock(mutex_);
    if (fault_) return;
    fault_ = fault;
    held_ = {};
    ended_.set_value(fault);
  }
  ReaderFault AwaitEnd() { return ended_.get_future().get(); }
  bool ended() const {
    MutexLock lock(mutex_);
    return fault_.has_value();
  }

 private:
  mutable Mutex mutex_;
  HeldOutput held_ ABSL_GUARDED_BY(mutex_);
  std::optional<ReaderFault> fault_ ABSL_GUARDED_BY(mutex_);
  std::promise<ReaderFault> ended_;
};

std::shared_ptr<FakeCall> AddCall(OpenCalls& calls, HeldOutput held) {
  auto call = std::make_shared<FakeCall>(held);
  calls.Add(call);
  return call;
}

TEST(OpenCallsTest, ItsThreadEndsAStalledCallAndNoOther) {
  OpenCalls calls({.stalled_after = milliseconds(20)});
  const auto fine = AddCall(calls, Waiting(1000));
  const auto stalled = AddCall(
      calls,
      {.write = WriteUnderWay{.bytes = 1, .started = steady_clock::now()}});

  EXPECT_EQ(stalled->AwaitEnd(), ReaderFault::kStalled);

  EXPECT_FALSE(fine->ended());
  calls.Remove(*fine);
  calls.Remove(*stalled);
}

TEST(OpenCallsTest, ItsThreadKeepsTheBoundAndReportsTheLoad) {
  std::promise<OpenCallsLoad> full_load;
  bool told = false;
  OpenCalls calls({.max_held_bytes = 500'000}, [&](const OpenCallsLoad& load) {
    if (load.calls < 2 || std::exchange(told, true)) return;
    full_load.set_value(load);
  });
  const auto behind = AddCall(calls, Waiting(400'000));
  const auto fine = AddCall(calls, Kept(300'000));

  EXPECT_EQ(behind->AwaitEnd(), ReaderFault::kDoorFull);

  const OpenCallsLoad load = full_load.get_future().get();
  EXPECT_EQ(load.kept_bytes, 300'000u);
  EXPECT_EQ(load.undelivered_bytes, 0u) << "of those that are left";
  EXPECT_FALSE(fine->ended());
  EXPECT_EQ(calls.size(), 2u) << "ended calls stay until they are removed";
  calls.Remove(*fine);
  calls.Remove(*behind);
}

TEST(OpenCallsTest, OwnsCallsUntilTheyAreRemoved) {
  OpenCalls calls({});
  auto call = std::make_shared<FakeCall>(HeldOutput());
  const std::weak_ptr<FakeCall> weak = call;
  const FakeCall& reference = *call;
  calls.Add(std::move(call));
  EXPECT_FALSE(weak.expired());

  calls.Remove(reference);

  EXPECT_EQ(calls.size(), 0u);
}

TEST(OpenCallsTest, AwaitNoneReturnsWhenTheCallsOfItsStartHaveEnded) {
  OpenCalls calls({});
  EXPECT_TRUE(calls.AwaitNone(TimePoint::max())) << "none is open";
  const auto first = AddCall(calls, {});
  const auto second = AddCall(calls, {});
  EXPECT_FALSE(calls.AwaitNone(steady_clock::now())) << "two are open";

  auto awaited = std::async(std::launch::async,
                            [&] { return calls.AwaitNone(TimePoint::max()); });
  calls.Remove(*first);
  calls.Remove(*second);
  const auto later = AddCall(calls, {});

  // Either it saw none, or it started so late that it waits for the third.
  calls.Remove(*later);
  EXPECT_TRUE(awaited.get());
}

TEST(OpenCallsTest, StopWaitingEndsTheWait) {
  OpenCalls calls({});
  const auto call = AddCall(calls, {});
  auto awaited = std::async(std::launch::async,
                            [&] { return calls.AwaitNone(TimePoint::max()); });

  calls.StopWaiting();

  EXPECT_FALSE(awaited.get());
  calls.Remove(*call);
}

}  // namespace
}  // namespace bole
