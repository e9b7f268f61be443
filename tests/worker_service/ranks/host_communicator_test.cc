#include "worker_service/ranks/host_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/communicator.h"
#include "tests/testing/matrices.h"
#include "tests/worker_service/ranks/on_ranks.h"
#include "worker_service/ranks/group_memory.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

using testing::kNoDeadline;

// Runs body(communicator) on a thread for each rank.
void OnRanks(int n, const std::function<void(Communicator&)>& body,
             milliseconds deadline = kNoDeadline) {
  testing::OnRanks(
      n, [&body](std::unique_ptr<Communicator> own) { body(*own); }, deadline);
}

// The values have magnitudes from 2^-20 to 2^20, so that a sum depends on the
// order of its terms.
std::vector<float> PartOf(int rank, int call, size_t size) {
  std::mt19937 rng(static_cast<uint32_t>(100 * call + rank));
  std::vector<float> part(size);
  for (float& x : part) {
    x = std::ldexp(testing::Uniform(rng, -1, 1),
                   static_cast<int>(rng() % 41) - 20);
  }
  return part;
}

std::vector<float> SumOf(int num_ranks, int call, size_t size) {
  std::vector<float> sum = PartOf(0, call, size);
  for (int r = 1; r < num_ranks; ++r) {
    const std::vector<float> part = PartOf(r, call, size);
    for (size_t i = 0; i < size; ++i) sum[i] += part[i];
  }
  return sum;
}

TEST(HostCommunicatorTest, EveryRankHasTheSumInTheOrderOfTheRanks) {
  for (const int n : {1, 2, 3, 5}) {
    OnRanks(n, [n](Communicator& ranks) {
      EXPECT_EQ(ranks.rank().count, n);
      // One array for all calls: it may be written as soon as a call returns.
      std::vector<float> part(64);
      std::vector<float> sum(64);
      for (int call = 0; call < 200; ++call) {
        const size_t size = 1 + call % 64;
        const std::vector<float> values =
            PartOf(ranks.rank().index, call, size);
        std::copy(values.begin(), values.end(), part.begin());
        const absl::Status status = ranks.AllReduce(std::span(part).first(size),
                                                    std::span(sum).first(size));
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(testing::SameBits(std::span(sum).first(size),
                                      SumOf(n, call, size)));
      }
    });
  }
}

TEST(HostCommunicatorTest, PartsOfAnySizeAreGatheredInTheOrderOfTheRanks) {
  OnRanks(4, [](Communicator& ranks) {
    for (int call = 0; call < 200; ++call) {
      const auto size_of = [call](int r) { return (call + 3 * r) % 5; };
      std::vector<char> want;
      for (int r = 0; r < 4; ++r) {
        want.insert(want.end(), size_of(r), static_cast<char>(10 * r + call));
      }
      const int r = ranks.rank().index;
      const std::vector<char> part(size_of(r),
                                   static_cast<char>(10 * r + call));
      std::vector<char> whole(want.size());
      const absl::Status status =
          ranks.AllGather(std::as_bytes(std::span(part)),
                          std::as_writable_bytes(std::span(whole)));
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(whole, want);
    }
  });
}

// The parts are longer than what a rank can give in one exchange.
TEST(HostCommunicatorTest, LongPartsComeWhole) {
  static constexpr size_t kFloats = 3 * CollectiveMemory::kPartBytes / 4 + 5;
  OnRanks(3, [](Communicator& ranks) {
    const int r = ranks.rank().index;
    std::vector<float> sum(kFloats);
    for (int call = 0; call < 3; ++call) {
      const absl::Status status =
          ranks.AllReduce(PartOf(r, call, kFloats), sum);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(testing::SameBits(sum, SumOf(3, call, kFloats)));
      // One rank gives nothing, and one as much as fits in one exchange.
      const auto size_of = [](int rank) {
        return rank * CollectiveMemory::kPartBytes / 4;
      };
      std::vector<float> want;
      for (int i = 0; i < 3; ++i) {
        const std::vector<float> part = PartOf(i, call, size_of(i));
        want.insert(want.end(), part.begin(), part.end());
      }
      std::vector<float> whole(want.size());
      const std::vector<float> part = PartOf(r, call, size_of(r));
      const absl::Status gathered =
          ranks.AllGather(std::as_bytes(std::span(part)),
                          std::as_writable_bytes(std::span(whole)));
      ASSERT_TRUE(gathered.ok()) << gathered;
      ASSERT_TRUE(testing::SameBits(whole, want));
    }
  });
}

absl::Status Reduce(Communicator& ranks, size_t size = 1) {
  const std::vector<float> part(size, 1);
  std::vector<float> sum(size);
  return ranks.AllReduce(part, sum);
}

TEST(HostCommunicatorTest, ARankThatStallsIsNamedWhenTheDeadlineHasPassed) {
  // Long enough for three threads to begin on a busy machine.
  static constexpr milliseconds kDeadline{2000};
  std::promise<void> all_told;
  std::shared_future<void> over = all_told.get_future().share();
  std::atomic<int> num_told = 0;
  OnRanks(
      3,
      [&](Communicator& ranks) {
        ASSERT_TRUE(Reduce(ranks).ok());
        if (ranks.rank().index == 1) {
          over.wait();
          // Too late: the group has ended.
          EXPECT_TRUE(absl::IsDeadlineExceeded(Reduce(ranks)));
          return;
        }
        const Clock::time_point begin = Clock::now();
        const absl::Status status = Reduce(ranks);
        EXPECT_GE(Clock::now() - begin, 0.9 * kDeadline);
        EXPECT_TRUE(absl::IsDeadlineExceeded(status));
        EXPECT_EQ(status.message(),
                  "rank 1 of 3 did not come to call 1 within 2000 ms");
        EXPECT_EQ(Reduce(ranks), status);
        if (++num_told == 2) all_told.set_value();
      },
      kDeadline);
}

TEST(HostCommunicatorTest, ARankThatThrowsEndsTheWaitOfTheOthersAtOnce) {
  const Clock::time_point begin = Clock::now();
  testing::OnRanks(3, [](std::unique_ptr<Communicator> own) {
    try {
      const std::unique_ptr<Communicator> ranks = std::move(own);
      ASSERT_TRUE(Reduce(*ranks).ok());
      if (ranks->rank().index == 2) throw std::runtime_error("a fault");
      const absl::Status status = Reduce(*ranks);
      EXPECT_TRUE(absl::IsUnavailable(status));
      EXPECT_EQ(status.message(),
                "rank 2 of 3 has left: its communicator was destroyed");
    } catch (const std::runtime_error&) {
      // Its communicator is gone.
    }
  });
  EXPECT_LT(Clock::now() - begin, kNoDeadline / 2);
}

TEST(HostCommunicatorTest, TheOthersAreToldWhyARankHasLeft) {
  OnRanks(2, [](Communicator& ranks) {
    if (ranks.rank().index == 0) {
      ranks.Abort(absl::ResourceExhaustedError("no room for logits"));
    }
    const absl::Status status = Reduce(ranks);
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(status.message(), "rank 0 of 2 has left: no room for logits");
  });
}

TEST(HostCommunicatorTest, CallsThatDifferAreAnError) {
  const auto expect =
      [](const std::string& message,
         const std::function<absl::Status(Communicator&)>& of_0,
         const std::function<absl::Status(Communicator&)>& of_1) {
        OnRanks(2, [&](Communicator& ranks) {
          const absl::Status status =
              ranks.rank().index == 0 ? of_0(ranks) : of_1(ranks);
          EXPECT_TRUE(absl::IsInternal(status));
          EXPECT_EQ(status.message(), message);
        });
      };
  const auto gather = [](size_t part, size_t whole) {
    return [part, whole](Communicator& ranks) {
      const std::vector<std::byte> from(part);
      std::vector<std::byte> to(whole);
      return ranks.AllGather(from, to);
    };
  };
  const auto reduce = [](size_t size) {
    return [size](Communicator& ranks) { return Reduce(ranks, size); };
  };

  expect(
      "ranks diverged in call 0: rank 0 makes an all-reduce of 4 bytes to 4, "
      "rank 1 an all-reduce of 8 bytes to 8",
      reduce(1), reduce(2));
  expect(
      "ranks diverged in call 0: rank 0 makes an all-reduce of 4 bytes to 4, "
      "rank 1 an all-gather of 4 bytes to 4",
      reduce(1), gather(4, 4));
  expect("call 0 gathers 5 bytes of all ranks to 6", gather(2, 6),
         gather(3, 6));
}

TEST(HostCommunicatorTest, WhoWaitsTakesNoTimeOfAProcessor) {
  static constexpr milliseconds kWait{300};
  std::promise<void> waited;
  OnRanks(
      2,
      [&waited](Communicator& ranks) {
        if (ranks.rank().index == 1) {
          waited.get_future().wait();
          return;
        }
        const auto used = [] {
          timespec time = {};
          clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
          return std::chrono::seconds(time.tv_sec) +
                 std::chrono::nanoseconds(time.tv_nsec);
        };
        const auto before = used();
        EXPECT_TRUE(absl::IsDeadlineExceeded(Reduce(ranks)));
        EXPECT_LE(used() - before, kWait / 10);
        waited.set_value();
      },
      kWait);
}

}  // namespace
}  // namespace bole
