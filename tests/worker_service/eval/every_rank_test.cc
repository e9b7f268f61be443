// A command that several processes run.
#include "worker_service/eval/every_rank.h"

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/communicator.h"

namespace bole {
namespace {

absl::Status Sum(Communicator& ranks, std::vector<float>& sum) {
  const std::vector<float> part(4, static_cast<float>(ranks.rank().index + 1));
  return ranks.AllReduce(part, sum);
}

TEST(EveryRankTest, OneRankRunsAlone) {
  int calls = 0;
  EXPECT_TRUE(OnEveryRank(1, [&](const std::shared_ptr<Communicator>& ranks) {
                EXPECT_EQ(ranks, nullptr);
                EXPECT_TRUE(IsFirst(ranks.get()));
                ++calls;
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(calls, 1);
}

TEST(EveryRankTest, AllRanksMeetAndTheFirstIsHere) {
  std::vector<float> sum(4);
  const absl::Status status =
      OnEveryRank(3, [&](const std::shared_ptr<Communicator>& ranks) {
        return Sum(*ranks, sum);
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(sum, std::vector<float>(4, 1 + 2 + 3));
}

TEST(EveryRankTest, WhatARankFailsAtIsTheError) {
  std::vector<float> sum(4);
  const absl::Status status =
      OnEveryRank(3, [&](const std::shared_ptr<Communicator>& ranks) {
        if (ranks->rank().index == 2) return absl::DataLossError("torn page");
        return Sum(*ranks, sum);
      });
  EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status;
  EXPECT_NE(status.message().find("torn page"), std::string::npos) << status;
}

TEST(EveryRankTest, ARankThatIsKilledEndsTheOthers) {
  std::vector<float> sum(4);
  const absl::Status status =
      OnEveryRank(2, [&](const std::shared_ptr<Communicator>& ranks) {
        if (ranks->rank().index == 1) raise(SIGKILL);
        return Sum(*ranks, sum);
      });
  EXPECT_NE(status.message().find("rank 1 was ended by signal 9"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace bole
