// An engine that tests hold in mid-step, and plans for it.
#ifndef BOLE_TESTS_WORKER_SERVICE_LOOP_HELD_ENGINE_H_
#define BOLE_TESTS_WORKER_SERVICE_LOOP_HELD_ENGINE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/testing/random_step.h"

namespace bole::testing {

// Waits for a condition that other threads bring about.
class Watched {
 public:
  void Change(const std::function<void()>& change) {
    MutexLock lock(mutex_);
    change();
    changed_.NotifyAll();
  }
  // Fails after a while.
  void Await(const std::function<bool()>& condition) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (!condition()) {
      if (!changed_.WaitUntil(mutex_, deadline)) {
        ADD_FAILURE() << "it never happened";
        return;
      }
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
};

// In the place of an engine: takes any plan, and can be held in the middle of a
// step. The name of a NamedPlan() is the committed length in its result. Of a
// plan's forest it says nothing.
class HeldEngine {
 public:
  absl::Status Step(const StepPlan& plan, const OnRound& on_round) {
    EXPECT_FALSE(running_.exchange(true)) << "two steps at once";
    watched_.Change([this] { ++begun_; });
    watched_.Await([this] { return !held_; });
    running_ = false;
    if (fails_) return absl::UnavailableError("the device is gone");
    StepResult result = answer_.value_or(StepResult());
    if (!answer_) {
      for (const PrefillPlan& prefill : plan.prefills) {
        result.prefills.emplace_back().committed = prefill.sequence.committed;
      }
    }
    on_round(std::move(result));
    return absl::OkStatus();
  }
  void Hold() {
    watched_.Change([this] { held_ = true; });
  }
  void Release() {
    watched_.Change([this] { held_ = false; });
  }
  void FailFromNowOn() { fails_ = true; }
  // Whatever the plan is. Before the first one.
  void AnswerWith(StepResult answer) { answer_ = std::move(answer); }
  void AwaitBegun(int steps) {
    watched_.Await([this, steps] { return begun_ >= steps; });
  }
  int begun() {
    int begun = 0;
    watched_.Change([&] { begun = begun_; });
    return begun;
  }

 private:
  Watched watched_;
  std::optional<StepResult> answer_;
  bool held_ = false;
  int begun_ = 0;
  std::atomic<bool> running_{false};
  std::atomic<bool> fails_{false};
};

// A valid plan, told apart by `name`.
inline StepPlan NamedPlan(int name) {
  PrefillPlan prefill{.sequence = {.slot = SlotId(0)}, .tokens = {1}};
  prefill.sequence.committed = name;
  for (int page = 0; page < RandomPlanLimits().MaxPages(); ++page) {
    prefill.sequence.pages.emplace_back(page);
  }
  prefill.sequence.prompt_length = name + 1;
  StepPlan plan;
  plan.prefills.push_back(std::move(prefill));
  return plan;
}

inline StepPlan InvalidPlan() {
  StepPlan plan = NamedPlan(1);
  plan.prefills[0].sequence.slot = SlotId(1 << 20);
  return plan;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_LOOP_HELD_ENGINE_H_
