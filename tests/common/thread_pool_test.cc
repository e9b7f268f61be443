#include "common/thread_pool.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(ThreadPoolTest, RunsEveryIndexExactlyOnce) {
  for (const int num_threads : {1, 2, 3, 4, 8}) {
    ThreadPool pool(num_threads);
    for (int count = 0; count <= 100; ++count) {
      SCOPED_TRACE(testing::Message()
                   << num_threads << " threads, " << count << " indices");
      std::vector<int> runs(count, 0);

      pool.ParallelFor(count, [&](int i) { ++runs[i]; });

      EXPECT_EQ(std::count(runs.begin(), runs.end(), 1), count);
    }
  }
}

TEST(ThreadPoolTest, OneLoopSeesWhatTheLastOneWrote) {
  ThreadPool pool(4);
  std::vector<int> from(64, 0);
  std::vector<int> to(64, 0);

  // An index is likely to run on another thread than the one it reads from.
  for (int round = 0; round < 2000; ++round) {
    pool.ParallelFor(64, [&](int i) { to[i] = from[63 - i] + 1; });
    std::swap(from, to);
  }

  EXPECT_EQ(from, std::vector<int>(64, 2000));
}

TEST(ThreadPoolTest, CallsTheBodyOfThisLoopAndNotOfTheLast) {
  ThreadPool pool(3);
  std::vector<int> seen(16);

  for (int round = 0; round < 2000; ++round) {
    const int count = 2 + round % 15;
    pool.ParallelFor(count, [&, round](int i) { seen[i] = round; });
    ASSERT_EQ(std::count(seen.begin(), seen.begin() + count, round), count);
  }
}

TEST(ThreadPoolTest, ThousandsOfShortLoopsBackToBackAllRun) {
  for (const int num_threads : {2, 4}) {
    SCOPED_TRACE(num_threads);
    ThreadPool pool(num_threads);
    std::vector<int> runs(3, 0);

    for (int round = 0; round < 5000; ++round) {
      pool.ParallelFor(3, [&](int i) { ++runs[i]; });
    }

    EXPECT_EQ(runs, std::vector<int>(3, 5000));
  }
}

TEST(ThreadPoolTest, OneThreadRunsEverythingOnTheCaller) {
  ThreadPool pool(1);
  std::set<std::thread::id> threads;

  pool.ParallelFor(10,
                   [&](int) { threads.insert(std::this_thread::get_id()); });

  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  EXPECT_EQ(pool.num_threads(), 1);
}

TEST(ThreadPoolTest, StopsWhetherOrNotItEverRan) {
  // By the time of the last ones, the workers of the first have gone to sleep.
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (int n = 0; n < 40; ++n) {
    pools.push_back(std::make_unique<ThreadPool>(4));
    if (n % 2 == 0) continue;
    std::vector<int> parts(10);
    pools.back()->ParallelFor(10, [&](int i) { parts[i] = i; });
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0), 45);
  }

  pools.clear();
}

}  // namespace
}  // namespace bole
