// Many simulated workers in one process, and what the scheduler's loop takes
// for their rounds.
#ifndef BOLE_TESTS_BENCH_LOAD_FLEET_WORKERS_H_
#define BOLE_TESTS_BENCH_LOAD_FLEET_WORKERS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/trace/plan_trace.h"
#include "proto/worker.pb.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/bench/load/event_thread.h"
#include "tests/bench/samples.h"
#include "tests/simulation/virtual_worker.h"

namespace bole {

// What the loop's thread took. That thread's alone, but for Restart().
class LoopTimes {
 public:
  // Later samples than `expected` cost memory.
  explicit LoopTimes(size_t expected);

  // A plan was sent just now, `since_result` after the result before it.
  void PlanSent(std::chrono::nanoseconds since_result);
  // A turn ended just now.
  void TurnEnded();
  // Forgets what was measured, at the end of the turn.
  void Restart() { restart_ = true; }

  // CPU time of the thread for a plan: that of its turn, and of the turns
  // before it that sent none, over the plans that the turn sent.
  const Samples& cpu() const { return cpu_; }
  // How many plans were sent by turns that sent any, on average.
  double plans_per_turn() const;
  // From a worker's result to its next plan.
  const Samples& wall() const { return wall_; }
  double cpu_seconds() const { return cpu_seconds_; }  // All together.

 private:
  Samples cpu_{"CPU time of the loop, per round"};
  Samples wall_{"from a result to the next plan"};
  std::chrono::nanoseconds last_cpu_{0};
  double cpu_seconds_ = 0;
  int plans_ = 0;  // Of this turn.
  int64_t turns_ = 0;
  std::atomic<bool> restart_{false};
};

// A VirtualWorker in real time on a thread that several share. The scheduler's
// loop encodes each plan, as it does for a worker on the wire; the worker's
// thread decodes it.
class FleetWorker final : public WorkerClient {
 public:
  FleetWorker(simulation::VirtualWorkerOptions options, EventThread& thread,
              LoopTimes& times, std::function<void(WorkerNews)> post);

  // Connects after `delay`.
  void JoinAfter(std::chrono::nanoseconds delay);

  void Send(uint64_t epoch, uint64_t plan_number, const StepPlan& plan,
            const PlanTrace& trace) override;
  void Close(uint64_t epoch) override;
  void Disconnect(uint64_t epoch, const absl::Status& why) override;

  // Once the thread has stopped.
  const simulation::VirtualWorker& worker() const { return worker_; }

 private:
  void Tell(WorkerNews news);

  EventThread& thread_;
  LoopTimes& times_;
  const std::function<void(WorkerNews)> post_;
  simulation::VirtualWorker worker_;  // The thread's.
  std::atomic<std::chrono::steady_clock::time_point> result_at_{};
};

}  // namespace bole

#endif  // BOLE_TESTS_BENCH_LOAD_FLEET_WORKERS_H_
