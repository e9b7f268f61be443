#include "scheduler_service/task_thread.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(TaskThreadTest, RunsEverythingInOrderAndElsewhere) {
  std::vector<int> order;
  const std::thread::id here = std::this_thread::get_id();

  {
    TaskThread thread(/*max_waiting=*/100);
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(thread.Post([&, i] {
        order.push_back(i);
        EXPECT_NE(std::this_thread::get_id(), here);
      }));
    }
  }

  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(TaskThreadTest, RefusesWhenTooManyWait) {
  std::promise<void> started;
  std::promise<void> go_on;
  std::atomic<int> runs = 0;
  {
    TaskThread thread(/*max_waiting=*/2);
    ASSERT_TRUE(thread.Post([&] {
      started.set_value();
      go_on.get_future().wait();
    }));
    started.get_future().wait();

    EXPECT_TRUE(thread.Post([&] { ++runs; }));
    EXPECT_TRUE(thread.Post([&] { ++runs; }));
    EXPECT_FALSE(thread.Post([&] { ++runs; }));

    go_on.set_value();
  }
  EXPECT_EQ(runs, 2);
}

TEST(TaskThreadTest, TakesTasksFromManyThreads) {
  std::atomic<int> runs = 0;
  {
    TaskThread thread(/*max_waiting=*/10'000);
    const auto count = [&] { ++runs; };
    const auto post = [&] {
      for (int i = 0; i < 1000; ++i) thread.Post(count);
    };
    std::thread first(post);
    std::thread second(post);
    first.join();
    second.join();
  }
  EXPECT_EQ(runs, 2000);
}

}  // namespace
}  // namespace bole
