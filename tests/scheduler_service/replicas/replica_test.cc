#include "scheduler_service/replicas/replica.h"

#include <chrono>
#include <cmath>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/replicas/replica_fixture.h"

namespace bole {
namespace {

using ::bole::testing::ReplicaTest;
using ::std::chrono::milliseconds;
using ::std::chrono::seconds;

TEST_F(ReplicaTest, TakesNothingBeforeItsWorkerIsThere) {
  EXPECT_FALSE(replica_.connected());
  EXPECT_FALSE(replica_.accepts());
  EXPECT_FALSE(replica_.free());
  EXPECT_EQ(replica_.deadline(), TimePoint::max());
  EXPECT_EQ(replica_.status().last_error, "no worker has connected yet");

  Connect();

  EXPECT_TRUE(replica_.accepts());
  EXPECT_TRUE(replica_.free());
  EXPECT_EQ(replica_.status().last_error, "");
  EXPECT_EQ(replica_.status().epoch, worker_.epoch());
}

TEST_F(ReplicaTest, RunsAJobToItsEnd) {
  Connect();
  const Job& job = Place();
  while (replica_.num_running() > 0) {
    Start();
    EXPECT_FALSE(replica_.free());
    EXPECT_EQ(replica_.deadline(),
              now_ + seconds(120) +
                  (worker_.next_plan().prefills.empty()
                       ? TimePoint::duration()
                       : TimePoint::duration(seconds(120)) * 20 / 1024));
    Answer();
    EXPECT_EQ(replica_.status().audit.empty(), replica_.num_running() == 0);
  }

  EXPECT_EQ(told_[job.id()].tokens, OutputOf(job));
  ASSERT_EQ(told_[job.id()].ends.size(), 1u);
  EXPECT_TRUE(told_[job.id()].ends[0].ok());
  EXPECT_EQ(replica_.status().pages.free, Limits().num_pages);
}

TEST_F(ReplicaTest, AnIdleWorkerWithJobsIsWrong) {
  Connect();
  Place();

  EXPECT_EQ(replica_.status().audit,
            "1 requests run, but the worker has no plan");
  Start();
  EXPECT_EQ(replica_.status().audit, "");
}

TEST_F(ReplicaTest, ALossDisplacesAllInOrderAndForgetsEverything) {
  Connect();
  const Job& first = Place();
  const Job& second = Place();
  Start();
  Answer();
  Start();

  replica_.On(WorkerLost{worker_.epoch(), absl::UnavailableError("unplugged")},
              now_);

  for (const Job* job : {&first, &second}) {
    EXPECT_EQ(told_[job->id()].displaced,
              std::vector<Displacement>{Displacement::kLostInRound});
    EXPECT_TRUE(told_[job->id()].ends.empty());
  }
  EXPECT_EQ(why_, absl::UnavailableError("unplugged"));
  EXPECT_EQ(replica_.num_running(), 0);
  EXPECT_EQ(replica_.lost_at(), now_);
  // The job itself has what it had; another worker goes on.
  EXPECT_EQ(first.num_output(), std::ssize(told_[first.id()].tokens));
  Connect();
  replica_.Place(*jobs_[0], /*cached_elsewhere=*/0);
  while (replica_.num_running() > 0) {
    Start();
    Answer();
  }
  EXPECT_EQ(told_[first.id()].tokens, OutputOf(first));
}

TEST_F(ReplicaTest, NewsOfAnEpochThatIsOverAreNoNews) {
  Connect();
  Place();
  Start();
  const WorkerOutcome late = worker_.Run();
  replica_.GiveUp(absl::AbortedError("superseded"), now_);
  Connect();

  replica_.On(late, now_);
  replica_.On(WorkerDraining{late.epoch});
  replica_.On(WorkerLost{late.epoch, absl::UnavailableError("old")}, now_);

  EXPECT_TRUE(replica_.connected());
  EXPECT_FALSE(replica_.draining());
  EXPECT_TRUE(told_[jobs_[0]->id()].tokens.empty());
}

TEST_F(ReplicaTest, AJobThatIsDroppedOnItsWayIsToldNothing) {
  Connect();
  const Job& gone = Place();
  const Job& stays = Place();
  Start();

  replica_.Drop(gone);
  EXPECT_EQ(replica_.num_running(), 1);
  EXPECT_EQ(replica_.status().audit, "");
  Answer();

  EXPECT_TRUE(told_[gone.id()].tokens.empty());
  EXPECT_TRUE(told_[gone.id()].displaced.empty());
  EXPECT_FALSE(told_[stays.id()].tokens.empty());
}

TEST_F(ReplicaTest, AJobIsMovedAway) {
  Connect();
  Job& job = Place();

  replica_.Displace(job, Displacement::kMoved);

  EXPECT_EQ(told_[job.id()].displaced,
            std::vector<Displacement>{Displacement::kMoved});
  EXPECT_EQ(replica_.num_running(), 0);
}

TEST_F(ReplicaTest, WhoEvictedTakesNobodyUntilItsRoundIsSent) {
  Connect();
  for (int i = 0; i < 4; ++i) Place(150, 300);  // 10 pages each, of 48.
  std::vector<Job*> moved;
  for (int round = 0; round < 60; ++round) {
    replica_.MakeRoom();
    const bool evicted = replica_.num_running() < 4;
    EXPECT_EQ(replica_.accepts(), !evicted);
    replica_.StartRound(/*others_wait=*/true, now_);
    EXPECT_TRUE(replica_.accepts());
    if (evicted) break;
    Answer();
  }

  EXPECT_EQ(told_[jobs_[3]->id()].displaced,
            std::vector<Displacement>{Displacement::kEvicted});
  EXPECT_TRUE(told_[jobs_[0]->id()].displaced.empty());
}

TEST_F(ReplicaTest, ALateRoundLosesTheWorker) {
  Connect();
  const Job& job = Place();
  Start();
  now_ = replica_.deadline();

  replica_.CheckDeadline(now_ - milliseconds(1));
  EXPECT_TRUE(replica_.connected());
  replica_.CheckDeadline(now_);

  EXPECT_FALSE(replica_.connected());
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker_.disconnected()));
  EXPECT_EQ(told_[job.id()].displaced,
            std::vector<Displacement>{Displacement::kLostInRound});
}

TEST_F(ReplicaTest, ADrainingWorkerIsLetGoWhenNothingRuns) {
  Connect();
  Place(20, 5);
  Start();
  replica_.On(WorkerDraining{worker_.epoch()});
  EXPECT_TRUE(replica_.draining());
  EXPECT_FALSE(replica_.accepts());
  while (replica_.num_running() > 0) {
    EXPECT_EQ(worker_.closed(), 0u);
    Answer();
    Start(/*others_wait=*/false);
    if (worker_.has_plan()) {
      EXPECT_FALSE(worker_.next_plan().lease);
    }
  }

  EXPECT_EQ(worker_.closed(), worker_.epoch());
}

TEST_F(ReplicaTest, ADrainingWorkerMayStayUntilItIsLetGo) {
  Connect();
  Place(20, 1);
  Start();
  replica_.On(WorkerDraining{worker_.epoch()});

  replica_.On(WorkerDraining{.epoch = worker_.epoch(), .draining = false});
  EXPECT_TRUE(replica_.accepts());

  replica_.On(WorkerDraining{worker_.epoch()});
  Answer();
  Start();
  ASSERT_EQ(worker_.closed(), worker_.epoch());
  replica_.On(WorkerDraining{.epoch = worker_.epoch(), .draining = false});
  EXPECT_FALSE(replica_.accepts());
}

TEST_F(ReplicaTest, RoundsAreLentWhenNobodyWaits) {
  Connect();
  const Job& job = Place();
  Start(/*others_wait=*/false);
  EXPECT_FALSE(worker_.next_plan().lease);
  Answer();
  Start(/*others_wait=*/false);
  ASSERT_TRUE(worker_.next_plan().lease);
  Answer();
  EXPECT_FALSE(replica_.free());  // Results of the lease follow.
  // Lost in the middle of it, nothing is lost or repeated.
  replica_.GiveUp(absl::UnavailableError("gone"), now_);
  Connect();
  replica_.Place(*jobs_[0], /*cached_elsewhere=*/0);
  while (replica_.num_running() > 0) {
    if (replica_.free()) Start(/*others_wait=*/false);
    Answer();
  }

  EXPECT_EQ(told_[job.id()].tokens, OutputOf(job));
}

TEST_F(ReplicaTest, TheOptionTellsWhatAwaitsAJob) {
  Connect();
  const Job& job = Make(100, 10);
  RouteOption option = replica_.OptionFor(job, now_);
  EXPECT_TRUE(option.has_room);
  EXPECT_EQ(option.seconds_until_free, 0);
  EXPECT_EQ(option.round_seconds, 0);
  EXPECT_EQ(option.prefill_tokens, 100);
  EXPECT_EQ(option.max_prefill_tokens, Limits().max_prefill_tokens);

  Place(20);
  Start();
  Answer();  // 10 ms.
  Place(50);
  Start();
  now_ += milliseconds(4);
  option = replica_.OptionFor(job, now_);
  EXPECT_EQ(option.num_running, 2u);
  EXPECT_EQ(option.prefill_ahead, 50);
  EXPECT_NEAR(option.round_seconds, 0.010, 1e-9);
  EXPECT_NEAR(option.seconds_until_free, 0.006, 1e-9);

  now_ += milliseconds(7);
  EXPECT_TRUE(std::isinf(replica_.OptionFor(job, now_).seconds_until_free));
}

TEST_F(ReplicaTest, AConnectionThatIsRefusedIsEnded) {
  WorkerNews news = worker_.Connect();
  replica_.Refuse(std::get<WorkerConnected>(news),
                  absl::AbortedError("another model"));

  EXPECT_FALSE(replica_.connected());
  EXPECT_EQ(worker_.disconnected(), absl::AbortedError("another model"));
  EXPECT_EQ(replica_.status().last_error, "ABORTED: another model");
  Connect();
  EXPECT_TRUE(replica_.accepts());
}

}  // namespace
}  // namespace bole
