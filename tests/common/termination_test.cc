#include "common/termination.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "gtest/gtest.h"

namespace bole {
namespace {

// One Termination for the process, as in a main(): the signals stay blocked.
class TerminationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto blocked = Termination::Block();
    ASSERT_TRUE(blocked.ok()) << blocked.status();
    termination_ = new Termination(*std::move(blocked));
  }
  static void TearDownTestSuite() { delete termination_; }

  static inline Termination* termination_ = nullptr;
};

TEST_F(TerminationTest, ASignalSentBeforeWaitsForTheWait) {
  for (const int signal : {SIGTERM, SIGINT}) {
    kill(getpid(), signal);

    termination_->Wait();
  }
}

TEST_F(TerminationTest, ThreadsStartedLaterDoNotTakeTheSignal) {
  std::promise<void> end;
  std::thread bystander([&] { end.get_future().wait(); });

  kill(getpid(), SIGTERM);
  termination_->Wait();

  end.set_value();
  bystander.join();
}

TEST_F(TerminationTest, WorkThatEndsByItselfIsNotInterrupted) {
  std::atomic<int> runs = 0;

  const bool signalled = termination_->RunUntilSignal(
      [&] { ++runs; }, [] { FAIL() << "there was no signal"; });

  EXPECT_FALSE(signalled);
  EXPECT_EQ(runs, 1);
}

TEST_F(TerminationTest, ASignalInterruptsTheWork) {
  std::promise<void> interrupted;

  const bool signalled = termination_->RunUntilSignal(
      [&] {
        kill(getpid(), SIGTERM);
        interrupted.get_future().wait();
      },
      [&] { interrupted.set_value(); });

  EXPECT_TRUE(signalled);
}

TEST_F(TerminationTest, OneSignalIsUsedUpByOneWait) {
  kill(getpid(), SIGTERM);
  termination_->Wait();

  EXPECT_FALSE(termination_->RunUntilSignal([] {}, [] { FAIL(); }));
}

}  // namespace
}  // namespace bole
