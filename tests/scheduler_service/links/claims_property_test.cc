// Schedulers that come, go, freeze and are seen late, and the workers that they
// share: whatever happened, they soon agree.
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/ids.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/claims.h"
#include "scheduler_service/links/share.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = Claims::Time;
using Loss = Claims::Loss;

constexpr milliseconds kTick(100);
constexpr milliseconds kPeerPatience(3'000);
constexpr milliseconds kWorkerPatience(5'000);
constexpr milliseconds kLookInterval(1'000);

// As the worker's SchedulerSeat has it.
struct Worker {
  bool up = true;
  uint64_t holder = 0;  // An instance; 0: nobody.
  Time heard;
};

// One process.
struct Scheduler {
  explicit Scheduler(uint64_t instance)
      : instance(instance), claims(instance) {}

  const uint64_t instance;
  Claims claims;
  bool frozen = false;
  Time pinged;                     // When it last answered.
  std::map<int, Time> drained_at;  // What it gives back, by worker.
  std::vector<bool> held;          // What its claims were told.
};

class Pool {
 public:
  Pool(int num_workers, uint64_t seed) : rng_(seed), workers_(num_workers) {}

  void Run(milliseconds time) {
    for (const Time end = now_ + time; now_ < end; now_ += kTick) Step();
  }
  int Draw(int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(rng_);
  }

  void Start() {
    auto& scheduler =
        schedulers_.emplace_back(std::make_unique<Scheduler>(++num_instances_));
    scheduler->held.resize(workers_.size());
    scheduler->pinged = now_;
    for (size_t i = 0; i < workers_.size(); ++i) {
      scheduler->claims.Add(IdOf(i), absl::StrCat("worker-", i));
    }
  }
  void Kill(int which) {
    for (Worker& worker : workers_) {
      if (worker.holder == schedulers_[which]->instance) worker.holder = 0;
    }
    schedulers_.erase(schedulers_.begin() + which);
  }
  void Freeze(int which, bool frozen) { schedulers_[which]->frozen = frozen; }
  void SetUp(int which, bool up) {
    workers_[which].up = up;
    if (!up) workers_[which].holder = 0;
  }

  // One thing that may happen. The last scheduler is not killed.
  void Disturb() {
    const int which = Draw(num_schedulers());
    switch (Draw(5)) {
      case 0:
        if (num_schedulers() < 4) Start();
        return;
      case 1:
        if (num_schedulers() > 1) Kill(which);
        return;
      case 2:
        return Freeze(which, true);
      case 3:
        return Freeze(which, false);
      default:
        return SetUp(Draw(num_workers()), Draw(3) > 0);
    }
  }
  void EndDisturbance() {
    for (auto& scheduler : schedulers_) scheduler->frozen = false;
    for (int i = 0; i < num_workers(); ++i) SetUp(i, true);
  }

  int num_schedulers() const { return static_cast<int>(schedulers_.size()); }
  int num_workers() const { return static_cast<int>(workers_.size()); }

  // That each worker is held once, by whom it should be, and each scheduler
  // knows what it has.
  void ExpectShared() const {
    for (int rank = 0; rank < num_schedulers(); ++rank) {
      const Scheduler& scheduler = *schedulers_[rank];
      int held = 0;
      for (size_t i = 0; i < workers_.size(); ++i) {
        held += workers_[i].holder == scheduler.instance;
        EXPECT_EQ(scheduler.held[i], workers_[i].holder == scheduler.instance);
      }
      EXPECT_EQ(held,
                ShareOf(num_workers(), {.rank = rank, .of = num_schedulers()}));
    }
    for (const Worker& worker : workers_) EXPECT_NE(worker.holder, 0u);
  }
  int64_t num_moves() const { return num_moves_; }

 private:
  static WorkerId IdOf(size_t worker) {
    return WorkerId(static_cast<int32_t>(worker));
  }

  void Step() {
    for (auto& scheduler : schedulers_) {
      if (scheduler->frozen) continue;
      scheduler->pinged = now_;
      Follow(*scheduler);
      Look(*scheduler);
      const auto place = [&](const std::string&) {
        return PlaceOf(*scheduler);
      };
      for (const auto& order : scheduler->claims.Decide(place, now_)) {
        Obey(order, *scheduler);
      }
    }
  }

  // Since they started one after the other, they are in order already.
  std::optional<Place> PlaceOf(const Scheduler& self) const {
    Place place{.rank = 0, .of = 0};
    for (const auto& other : schedulers_) {
      if (other.get() == &self) place.rank = place.of;
      place.of += now_ - other->pinged < kPeerPatience;
    }
    return place;
  }

  // What a scheduler hears of those that it holds, which may be late.
  void Follow(Scheduler& scheduler) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (!scheduler.held[i]) continue;
      Worker& worker = workers_[i];
      const auto drained = scheduler.drained_at.find(static_cast<int>(i));
      if (worker.holder != scheduler.instance) {
        Lose(i, worker.up ? Loss::kSentAway : Loss::kOther, scheduler);
      } else if (drained != scheduler.drained_at.end() &&
                 now_ >= drained->second) {
        worker.holder = 0;
        Lose(i, Loss::kClosed, scheduler);
      } else {
        worker.heard = now_;
      }
    }
  }
  void Lose(size_t worker, Loss how, Scheduler& scheduler) {
    scheduler.held[worker] = false;
    scheduler.drained_at.erase(static_cast<int>(worker));
    scheduler.claims.Lost(IdOf(worker), how, now_);
  }

  void Look(Scheduler& scheduler) {
    if (now_.time_since_epoch() % kLookInterval != milliseconds(0)) return;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (scheduler.held[i]) continue;
      if (workers_[i].up) {
        scheduler.claims.Described(IdOf(i), "demo", now_);
      } else {
        scheduler.claims.Unreachable(IdOf(i));
      }
    }
  }

  void Obey(const Claims::Order& order, Scheduler& scheduler) {
    const int i = order.worker.value();
    Worker& worker = workers_[i];
    switch (order.kind) {
      case Claims::Order::Kind::kAsk:
        EXPECT_FALSE(scheduler.held[i]);
        if (!worker.up ||
            (worker.holder != 0 && now_ - worker.heard <= kWorkerPatience)) {
          return scheduler.claims.Lost(order.worker, Loss::kOther, now_);
        }
        ++num_moves_;
        worker.holder = scheduler.instance;
        worker.heard = now_;
        scheduler.held[i] = true;
        return scheduler.claims.Connected(order.worker, "demo", now_);
      case Claims::Order::Kind::kGiveBack:
        EXPECT_TRUE(scheduler.held[i]);
        scheduler.drained_at[i] = now_ + milliseconds(Draw(4000));
        return;
      case Claims::Order::Kind::kKeep:
        EXPECT_TRUE(scheduler.held[i]);
        scheduler.drained_at.erase(i);
        return;
    }
  }

  std::mt19937_64 rng_;
  Time now_ = Time() + seconds(1000);
  std::vector<Worker> workers_;
  std::vector<std::unique_ptr<Scheduler>> schedulers_;  // The oldest first.
  uint64_t num_instances_ = 0;
  int64_t num_moves_ = 0;  // Times that a worker got a scheduler.
};

TEST(ClaimsPropertyTest, WhateverHappenedEveryWorkerIsSoonHeldAsItShould) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Pool pool(/*num_workers=*/1 + static_cast<int>(seed % 8), seed);
    pool.Start();
    for (int i = 0; i < 30; ++i) {
      pool.Disturb();
      pool.Run(milliseconds(pool.Draw(6000)));
    }

    pool.EndDisturbance();
    pool.Run(seconds(20));

    pool.ExpectShared();
    const int64_t moves = pool.num_moves();
    pool.Run(seconds(60));
    pool.ExpectShared();
    EXPECT_EQ(pool.num_moves(), moves) << "nothing moves once it is settled";
  }
}

TEST(ClaimsPropertyTest, ASilentSchedulersWorkersAreTakenOnceTheyAreFree) {
  Pool pool(/*num_workers=*/4, /*seed=*/1);
  pool.Start();
  pool.Start();
  pool.Run(seconds(10));
  pool.ExpectShared();

  pool.Kill(0);
  pool.Run(kPeerPatience + seconds(1));

  pool.ExpectShared();
}

TEST(ClaimsPropertyTest, AWorkerThatIsStartedAnewMovesNoOther) {
  Pool pool(/*num_workers=*/5, /*seed=*/1);
  pool.Start();
  pool.Start();
  pool.Run(seconds(10));
  const int64_t moves = pool.num_moves();

  for (int i = 0; i < 5; ++i) {
    pool.SetUp(i, false);
    pool.Run(seconds(30));
    pool.SetUp(i, true);
    pool.Run(seconds(10));
  }

  pool.ExpectShared();
  EXPECT_EQ(pool.num_moves(), moves + 5);
}

}  // namespace
}  // namespace bole
