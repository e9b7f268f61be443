#include "scheduler_service/door/task_pool.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(TaskPoolTest, RunsEverythingInOrderAndElsewhere) {
  std::vector<int> order;
  const std::thread::id here = std::this_thread::get_id();

  {
    TaskPool pool(/*num_threads=*/1, /*max_waiting=*/100);
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(pool.Post([&, i] {
        order.push_back(i);
        EXPECT_NE(std::this_thread::get_id(), here);
      }));
    }
  }

  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(TaskPoolTest, RefusesWhenTooManyWait) {
  std::promise<void> started;
  std::promise<void> go_on;
  std::atomic<int> runs = 0;
  {
    TaskPool pool(/*num_threads=*/1, /*max_waiting=*/2);
    ASSERT_TRUE(pool.Post([&] {
      started.set_value();
      go_on.get_future().wait();
    }));
    started.get_future().wait();

    EXPECT_TRUE(pool.Post([&] { ++runs; }));
    EXPECT_TRUE(pool.Post([&] { ++runs; }));
    EXPECT_FALSE(pool.Post([&] { ++runs; }));

    go_on.set_value();
  }
  EXPECT_EQ(runs, 2);
}

TEST(TaskPoolTest, TakesTasksFromManyThreads) {
  std::atomic<int> runs = 0;
  {
    TaskPool pool(/*num_threads=*/3, /*max_waiting=*/10'000);
    const auto count = [&] { ++runs; };
    const auto post = [&] {
      for (int i = 0; i < 1000; ++i) pool.Post(count);
    };
    std::thread first(post);
    std::thread second(post);
    first.join();
    second.join();
  }
  EXPECT_EQ(runs, 2000);
}

// A thread of a pool that is busy until it is told to go on.
class BusyPool {
 public:
  BusyPool(int num_threads, size_t max_waiting)
      : pool_(num_threads, max_waiting) {
    EXPECT_TRUE(pool_.Post([this] {
      started_.set_value();
      go_on_.get_future().wait();
    }));
    started_.get_future().wait();
  }

  TaskPool& operator*() { return pool_; }
  TaskPool* operator->() { return &pool_; }
  void GoOn() { go_on_.set_value(); }

 private:
  std::promise<void> started_;
  std::promise<void> go_on_;
  TaskPool pool_;  // Ends before what its task uses.
};

TEST(TaskPoolTest, AWithdrawnTaskNeverRunsAndFreesItsPlace) {
  bool first_ran = false;
  bool second_ran = false;
  {
    BusyPool pool(/*num_threads=*/1, /*max_waiting=*/1);
    const auto first = pool->Post([&] { first_ran = true; });
    ASSERT_TRUE(first.has_value());
    ASSERT_FALSE(pool->Post([] {}).has_value());

    EXPECT_TRUE(pool->Withdraw(*first));
    EXPECT_EQ(pool->num_waiting(), 0u);
    const auto second = pool->Post([&] { second_ran = true; });
    EXPECT_TRUE(second.has_value());
    EXPECT_FALSE(pool->Withdraw(*first)) << "it is not there any more";

    pool.GoOn();
  }
  EXPECT_FALSE(first_ran);
  EXPECT_TRUE(second_ran);
}

TEST(TaskPoolTest, ATaskThatRunsIsNotWithdrawn) {
  std::promise<void> started;
  std::promise<void> go_on;
  TaskPool pool(/*num_threads=*/1, /*max_waiting=*/2);

  const auto ticket = pool.Post([&] {
    started.set_value();
    go_on.get_future().wait();
  });
  started.get_future().wait();

  EXPECT_FALSE(pool.Withdraw(*ticket));
  go_on.set_value();
}

TEST(TaskPoolTest, ALongTaskHoldsUpNobodyIfThereIsAnotherThread) {
  std::promise<void> ran;
  BusyPool pool(/*num_threads=*/2, /*max_waiting=*/10);

  ASSERT_TRUE(pool->Post([&] { ran.set_value(); }));

  ran.get_future().wait();  // While the first task is still there.
  pool.GoOn();
}

}  // namespace
}  // namespace bole
