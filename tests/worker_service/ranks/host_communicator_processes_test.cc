// As host_communicator_test.cc, of ranks that are processes.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/communicator.h"
#include "tests/worker_service/ranks/forked_ranks.h"
#include "worker_service/ranks/group_memory.h"
#include "worker_service/ranks/host_communicator.h"

namespace bole::testing {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

absl::Status Reduce(Communicator& ranks, size_t size = 1) {
  const std::vector<float> part(size, 1);
  std::vector<float> sum(size);
  return ranks.AllReduce(part, sum);
}

// What is wrong with `got`, or "".
std::string Difference(const absl::Status& want, const absl::Status& got) {
  return got == want ? ""
                     : absl::StrCat(got.ToString(), ", not ", want.ToString());
}

TEST(HostCommunicatorProcessesTest, ProcessesHaveTheSumAndTheParts) {
  static constexpr int kRanks = 3;
  // More than is given at once, and not a multiple of it.
  static constexpr size_t kFloats = CollectiveMemory::kPartBytes / 4 + 77;
  ForkedRanks ranks(kRanks, kNoDeadline, [](Communicator& own) -> std::string {
    const auto mine = static_cast<float>(own.rank().index + 1);
    for (int call = 0; call < 50; ++call) {
      const std::vector<float> part(kFloats, mine + static_cast<float>(call));
      std::vector<float> sum(kFloats);
      if (const auto status = own.AllReduce(part, sum); !status.ok()) {
        return status.ToString();
      }
      if (sum != std::vector<float>(kFloats, 6.0f + 3 * call)) return "sum";

      std::vector<float> whole(kRanks * kFloats);
      const auto gathered =
          own.AllGather(std::as_bytes(std::span(part)),
                        std::as_writable_bytes(std::span(whole)));
      if (!gathered.ok()) return gathered.ToString();
      for (size_t i = 0; i < whole.size(); ++i) {
        const size_t rank = i / kFloats;
        if (whole[i] != static_cast<float>(rank + 1 + call)) return "whole";
      }
    }
    return "";
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.Wait(rank), 0);
}

TEST(HostCommunicatorProcessesTest,
     AStoppedProcessIsNamedWhenTheDeadlineHasPassed) {
  // Long enough for the others to begin on a busy machine.
  static constexpr milliseconds kDeadline{2000};
  ForkedRanks ranks(3, kDeadline, [](Communicator& own) {
    absl::Status status = Reduce(own);
    if (!status.ok()) return status.ToString();
    if (own.rank().index == 1) raise(SIGSTOP);
    const auto begin = Clock::now();
    status = Reduce(own);
    if (own.rank().index != 1 && Clock::now() - begin > 2 * kDeadline) {
      return std::string("it took too long");
    }
    return Difference(absl::DeadlineExceededError(
                          "rank 1 of 3 did not come to call 1 within 2000 ms"),
                      status);
  });
  EXPECT_EQ(ranks.Wait(0), 0);
  EXPECT_EQ(ranks.Wait(2), 0);
  ranks.Signal(1, SIGCONT);  // It comes too late, and is told the same.
  EXPECT_EQ(ranks.Wait(1), 0);
}

// As all processes of a terminal are, and go on later.
TEST(HostCommunicatorProcessesTest, ProcessesThatAreStoppedTogetherGoOn) {
  static constexpr milliseconds kDeadline{2000};
  ForkedRanks ranks(2, kDeadline, [](Communicator& own) {
    absl::Status status = Reduce(own);
    if (own.rank().index == 1) {
      std::this_thread::sleep_for(kDeadline / 10);
    }
    if (status.ok()) status = Reduce(own);
    return status.ok() ? "" : status.ToString();
  });
  std::this_thread::sleep_for(kDeadline / 20);
  for (int rank : {0, 1}) ranks.Signal(rank, SIGSTOP);
  std::this_thread::sleep_for(kDeadline + kDeadline / 5);
  // The first one has been late for some time when it may see that.
  ranks.Signal(0, SIGCONT);
  std::this_thread::sleep_for(kDeadline / 20);
  ranks.Signal(1, SIGCONT);
  EXPECT_EQ(ranks.Wait(0), 0);
  EXPECT_EQ(ranks.Wait(1), 0);
}

TEST(HostCommunicatorProcessesTest, ARankMayBeKilledAtAnyMoment) {
  std::mt19937 rng(5);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const absl::Status killed = absl::UnavailableError("rank 1 was killed");
    ForkedRanks ranks(3, kNoDeadline, [&](Communicator& own) {
      absl::Status status;
      while (status.ok()) status = Reduce(own, 1000);
      return Difference(killed, status);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(rng() % 20000));
    ranks.Signal(1, SIGKILL);
    EXPECT_EQ(ranks.Wait(1), 128 + SIGKILL);
    ranks.group().End(0, killed);  // As whoever watches it does.
    EXPECT_EQ(ranks.Wait(0), 0);
    EXPECT_EQ(ranks.Wait(2), 0);
  }
}

TEST(HostCommunicatorProcessesTest, TheOthersAreToldWhyAProcessHasLeft) {
  ForkedRanks ranks(2, kNoDeadline, [](Communicator& own) {
    if (own.rank().index == 0) {
      own.Abort(absl::ResourceExhaustedError("no room for logits"));
    }
    return Difference(
        absl::UnavailableError("rank 0 of 2 has left: no room for logits"),
        Reduce(own));
  });
  EXPECT_EQ(ranks.Wait(0), 0);
  EXPECT_EQ(ranks.Wait(1), 0);
}

TEST(HostCommunicatorProcessesTest, CallsThatDifferAreAnErrorOfAllProcesses) {
  ForkedRanks ranks(2, kNoDeadline, [](Communicator& own) {
    return Difference(
        absl::InternalError("ranks diverged in call 0: rank 0 makes an "
                            "all-reduce of 4 bytes to 4, rank 1 an all-reduce "
                            "of 8 bytes to 8"),
        Reduce(own, own.rank().index == 0 ? 1 : 2));
  });
  EXPECT_EQ(ranks.Wait(0), 0);
  EXPECT_EQ(ranks.Wait(1), 0);
}

TEST(HostCommunicatorProcessesTest, WhatIsNoGroupCannotBeJoined) {
  for (const int descriptor : {-1, 0, 999}) {
    const absl::Status status = RankGroup::Join(descriptor).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

}  // namespace
}  // namespace bole::testing
