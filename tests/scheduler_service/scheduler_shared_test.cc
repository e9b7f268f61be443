// A scheduler that drains, and the workers that others wait for.
#include <utility>

#include "gtest/gtest.h"
#include "scheduler_service/jobs/mailbox.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/scheduler.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using testing::FleetTest;
using testing::RandomPrompt;
using testing::Reader;
using testing::SimulatedOutput;
using testing::TreeOptions;

SchedulerOptions Options(bool frees_workers_early) {
  SchedulerOptions options = TreeOptions();
  options.frees_workers_early = frees_workers_early;
  return options;
}

class SharedFleetTest : public FleetTest {
 protected:
  explicit SharedFleetTest(bool frees_workers_early = true)
      : FleetTest(/*num_workers=*/2, Options(frees_workers_early)) {}

  void Drain() {
    Mail mail;
    mail.draining = true;
    Handle(std::move(mail));
  }
  bool IsClosed(int worker) {
    return workers_[worker]->closed() == workers_[worker]->epoch();
  }
};

class UnsharedFleetTest : public SharedFleetTest {
 protected:
  UnsharedFleetTest() : SharedFleetTest(/*frees_workers_early=*/false) {}
};

TEST_F(SharedFleetTest, WorkersAreLetGoOneByOneAsTheirRequestsEnd) {
  ConnectAll();
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  Reader reader = Ask(prompt, 30);
  ASSERT_EQ(scheduler_.status().workers[0].running, 1);

  Drain();

  EXPECT_FALSE(IsClosed(0));
  EXPECT_TRUE(IsClosed(1));
  RunAll();
  EXPECT_TRUE(IsClosed(0));
  ExpectOutput(reader, SimulatedOutput(prompt, 30));
}

TEST_F(SharedFleetTest, WhatWasLetGoGetsNoRequestsOfALostOne) {
  ConnectAll();
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  Reader reader = Ask(prompt, 30);
  Drain();
  RunRound(0);

  Lose(0);

  EXPECT_EQ(scheduler_.status().workers[1].running, 0);
  EXPECT_EQ(scheduler_.status().waiting, 1);
  Connect(0);
  RunAll();
  ExpectOutput(reader, SimulatedOutput(prompt, 30));
  EXPECT_TRUE(IsClosed(0));
}

TEST_F(SharedFleetTest, NoneIsLetGoWhileSomebodyWaits) {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Reader> readers;
  ConnectAll();
  for (int i = 0; i < 9; ++i) {  // Each worker runs four.
    prompts.push_back(RandomPrompt(rng_, 20));
    readers.push_back(Ask(prompts.back(), 30));
  }

  Drain();
  RunAll();

  for (int i = 0; i < 9; ++i) {
    ExpectOutput(readers[i], SimulatedOutput(prompts[i], 30));
  }
  EXPECT_TRUE(IsClosed(0) && IsClosed(1));
}

TEST_F(UnsharedFleetTest, WhoSharesNothingKeepsItsWorkersToTheEnd) {
  ConnectAll();
  Drain();
  Look();

  EXPECT_FALSE(IsClosed(0) || IsClosed(1));
}

}  // namespace
}  // namespace bole
