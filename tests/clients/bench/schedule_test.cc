#include "clients/bench/schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bole::bench {
namespace {

// Sessions with so many turns each.
Workload Sessions(const std::vector<int>& num_turns) {
  Workload workload;
  for (const int count : num_turns) {
    workload.sessions.push_back(
        {.name = "",
         .start_seconds = std::nullopt,
         .turns = std::vector<Turn>(static_cast<size_t>(count))});
  }
  return workload;
}

// "0.0 1.0": instances and turns.
std::string Names(const std::vector<ScheduledTurn>& turns) {
  std::string names;
  for (const ScheduledTurn& turn : turns) {
    names += (names.empty() ? "" : " ") + std::to_string(turn.instance) + "." +
             std::to_string(turn.turn);
  }
  return names;
}

TEST(ScheduleTest, AnOpenLoopDoesNotWaitForAnswers) {
  const Workload workload = Sessions({1, 1});
  Schedule schedule(workload, {.arrivals = {1, 2, 2, 5}});

  EXPECT_EQ(schedule.NextDue(), 1);
  EXPECT_EQ(Names(schedule.Take(0.5)), "");
  EXPECT_EQ(Names(schedule.Take(1)), "0.0");
  EXPECT_EQ(schedule.Take(2).size(), 2u);
  EXPECT_EQ(schedule.NextDue(), 5);
  EXPECT_EQ(schedule.in_flight(), 3);
  EXPECT_FALSE(schedule.done());
}

TEST(ScheduleTest, WhatIsSentLateKeepsItsArrival) {
  const Workload workload = Sessions({1});
  Schedule schedule(workload, {.arrivals = {1}});

  const std::vector<ScheduledTurn> turns = schedule.Take(30);

  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].scheduled, 1);
}

TEST(ScheduleTest, ATurnFollowsTheAnswerAfterItsThinkTime) {
  Workload workload = Sessions({3});
  workload.sessions[0].turns[1].think_seconds = 4;
  Schedule schedule(workload,
                    {.arrivals = {0}, .think_seconds = 2, .think_scale = 0.5});

  const ScheduledTurn first = schedule.Take(0)[0];
  EXPECT_EQ(schedule.NextDue(), std::nullopt);
  schedule.Ended(first, 10, /*succeeded=*/true);
  EXPECT_EQ(schedule.NextDue(), 12);
  const ScheduledTurn second = schedule.Take(12)[0];
  EXPECT_EQ(second.turn, 1);
  EXPECT_EQ(second.scheduled, 12);
  schedule.Ended(second, 20, /*succeeded=*/true);
  EXPECT_EQ(schedule.NextDue(), 22);
  schedule.Ended(schedule.Take(22)[0], 23, /*succeeded=*/true);
  EXPECT_TRUE(schedule.done());
  EXPECT_EQ(schedule.num_dropped(), 0);
}

TEST(ScheduleTest, AFailedTurnEndsItsSessionAndTheRestIsCounted) {
  const Workload workload = Sessions({4});
  Schedule schedule(workload, {.arrivals = {0}});

  schedule.Ended(schedule.Take(0)[0], 1, /*succeeded=*/false);

  EXPECT_TRUE(schedule.done());
  EXPECT_EQ(schedule.num_dropped(), 3);
}

TEST(ScheduleTest, AClosedLoopReplacesSessionsAsTheyEnd) {
  const Workload workload = Sessions({2, 1});
  Schedule schedule(workload, {.concurrency = 2, .num_instances = 4});

  std::vector<ScheduledTurn> running = schedule.Take(0);
  EXPECT_EQ(Names(running), "0.0 1.0");
  schedule.Ended(running[1], 3, /*succeeded=*/true);
  EXPECT_EQ(schedule.NextDue(), 3);
  const ScheduledTurn third = schedule.Take(7)[0];
  EXPECT_EQ(third.instance, 2);
  EXPECT_EQ(third.scheduled, 3);
  schedule.Ended(running[0], 8, /*succeeded=*/true);
  EXPECT_EQ(Names(schedule.Take(8)), "0.1");
  schedule.Ended(third, 9, /*succeeded=*/false);
  EXPECT_EQ(Names(schedule.Take(9)), "3.0");
  EXPECT_EQ(schedule.NextDue(), std::nullopt);
}

TEST(ScheduleTest, AClosedLoopBeginsOverItsRamp) {
  const Workload workload = Sessions({1});
  Schedule schedule(workload,
                    {.concurrency = 4, .num_instances = 9, .ramp_seconds = 8});

  EXPECT_EQ(schedule.Take(0).size(), 1u);
  EXPECT_EQ(schedule.NextDue(), 2);
  EXPECT_EQ(schedule.Take(6).size(), 3u);
}

TEST(ScheduleTest, NothingBeginsAfterTheEnd) {
  const Workload workload = Sessions({2});
  Schedule open(workload, {.arrivals = {0, 5, 10, 15}, .end = 10});
  EXPECT_EQ(open.Take(100).size(), 2u);

  Schedule closed(workload, {.concurrency = 1, .num_instances = 9, .end = 10});
  const ScheduledTurn first = closed.Take(0)[0];
  closed.Ended(first, 11, /*succeeded=*/true);
  const ScheduledTurn second = closed.Take(11)[0];
  EXPECT_EQ(second.turn, 1);
  closed.Ended(second, 12, /*succeeded=*/true);
  EXPECT_TRUE(closed.done());
}

TEST(ScheduleTest, NoMoreAreInFlightThanAllowed) {
  const Workload workload = Sessions({1});
  Schedule schedule(workload, {.arrivals = {0, 0, 0}, .max_in_flight = 2});

  const std::vector<ScheduledTurn> turns = schedule.Take(1);
  EXPECT_EQ(turns.size(), 2u);
  EXPECT_EQ(schedule.NextDue(), std::nullopt);
  schedule.Ended(turns[0], 4, /*succeeded=*/true);
  ASSERT_EQ(schedule.NextDue(), 0);
  EXPECT_EQ(schedule.Take(4)[0].scheduled, 0);
}

TEST(ScheduleTest, ARetryIsDueLaterAndKeepsItsArrival) {
  const Workload workload = Sessions({1});
  Schedule schedule(workload, {.arrivals = {1}});

  schedule.Retry(schedule.Take(1)[0], 2, 0.5);

  EXPECT_EQ(schedule.NextDue(), 2.5);
  EXPECT_EQ(schedule.in_flight(), 0);
  const ScheduledTurn again = schedule.Take(2.5)[0];
  EXPECT_EQ(again.attempt, 1);
  EXPECT_EQ(again.scheduled, 1);
}

TEST(ScheduleTest, AfterStopTheRestIsDropped) {
  const Workload workload = Sessions({3});
  Schedule schedule(workload, {.arrivals = {0, 0, 9}});
  const std::vector<ScheduledTurn> turns = schedule.Take(0);
  schedule.Ended(turns[0], 1, /*succeeded=*/true);

  schedule.Stop();

  EXPECT_EQ(schedule.NextDue(), std::nullopt);
  EXPECT_EQ(schedule.num_dropped(), 2);
  EXPECT_FALSE(schedule.done());
  schedule.Ended(turns[1], 2, /*succeeded=*/true);
  EXPECT_EQ(schedule.num_dropped(), 4);
  EXPECT_TRUE(schedule.done());
}

}  // namespace
}  // namespace bole::bench
