#include "common/termination.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

// One Termination for the process, as in a main(): the signals stay blocked.
class TerminationTest : public testing::Test {
 protected:
  static Termination& Signals() {
    static auto& signals =
        *new absl::StatusOr<Termination>(Termination::Block());
    return *signals;
  }
  void SetUp() override { Signals(); }
};

TEST_F(TerminationTest, ASignalSentBeforeWaitsForTheWait) {
  for (const int signal : {SIGTERM, SIGINT}) {
    kill(getpid(), signal);

    Signals().Wait();
  }
}

TEST_F(TerminationTest, ThreadsStartedLaterDoNotTakeTheSignal) {
  std::promise<void> end;
  std::thread bystander([&] { end.get_future().wait(); });

  kill(getpid(), SIGTERM);
  Signals().Wait();

  end.set_value();
  bystander.join();
}

TEST_F(TerminationTest, WorkThatEndsByItselfIsNotInterrupted) {
  std::atomic<int> runs = 0;

  const bool signalled = Signals().RunUntilSignal(
      [&] { ++runs; }, [] { FAIL() << "there was no signal"; });

  EXPECT_FALSE(signalled);
  EXPECT_EQ(runs, 1);
}

TEST_F(TerminationTest, ASignalInterruptsTheWork) {
  std::promise<void> interrupted;

  const bool signalled = Signals().RunUntilSignal(
      [&] {
        kill(getpid(), SIGTERM);
        interrupted.get_future().wait();
      },
      [&] { interrupted.set_value(); });

  EXPECT_TRUE(signalled);
}

TEST_F(TerminationTest, OneSignalIsUsedUpByOneWait) {
  kill(getpid(), SIGTERM);
  Signals().Wait();

  EXPECT_FALSE(Signals().RunUntilSignal([] {}, [] { FAIL(); }));
}

}  // namespace
}  // namespace bole
