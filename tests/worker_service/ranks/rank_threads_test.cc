#include "worker_service/ranks/rank_threads.h"

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr int kRanks = 4;

TEST(RankThreadsTest, EachRankKeepsItsThreadAndTheFirstIsTheCallers) {
  RankThreads threads(kRanks);
  std::array<std::set<std::thread::id>, kRanks> ids;
  std::array<int, kRanks> calls{};
  for (int run = 0; run < 100; ++run) {
    const absl::Status status = threads.Run([&](int rank) {
      ids[static_cast<size_t>(rank)].insert(std::this_thread::get_id());
      ++calls[static_cast<size_t>(rank)];
      return absl::OkStatus();
    });
    EXPECT_EQ(status, absl::OkStatus());
  }

  std::set<std::thread::id> all;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(calls[rank], 100);
    EXPECT_EQ(ids[rank].size(), 1);
    all.insert(*ids[rank].begin());
  }
  EXPECT_EQ(all.size(), kRanks);
  EXPECT_EQ(*ids[0].begin(), std::this_thread::get_id());
}

TEST(RankThreadsTest, RanksMayWaitForOneAnother) {
  RankThreads threads(kRanks);
  std::barrier<> meeting(kRanks);
  std::atomic<int> met{0};
  EXPECT_TRUE(threads
                  .Run([&](int /*rank*/) {
                    meeting.arrive_and_wait();
                    ++met;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(met, kRanks);
}

TEST(RankThreadsTest, TheLowestRanksErrorIsToldAndIsGoneTheNextTime) {
  RankThreads threads(kRanks);
  const absl::Status status = threads.Run([](int rank) {
    return rank < 2 ? absl::OkStatus()
                    : absl::InternalError(absl::StrCat("rank ", rank));
  });
  EXPECT_EQ(status, absl::InternalError("rank 2"));
  EXPECT_EQ(threads.Run([](int /*rank*/) { return absl::OkStatus(); }),
            absl::OkStatus());
}

TEST(RankThreadsTest, AnOnlyRankNeedsNoThread) {
  RankThreads threads(1);
  const std::thread::id caller = std::this_thread::get_id();
  EXPECT_EQ(threads.Run([&](int rank) {
    EXPECT_EQ(rank, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
    return absl::InternalError("it");
  }),
            absl::InternalError("it"));
}

}  // namespace
}  // namespace bole
