// The rounds of a simulated worker in time: their costs, and their faults.
#ifndef BOLE_TESTS_SIMULATION_STEP_RUNNER_H_
#define BOLE_TESTS_SIMULATION_STEP_RUNNER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/step.h"
#include "common/step_costs.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/simulated_engine.h"

namespace bole::simulation {

struct StepRunnerOptions {
  SimulatedEngineOptions engine;
  StepCosts costs;
  double speed = 1;  // Times are divided by it; 0: nothing waits.
  std::vector<Fault> faults;
  // How many signals have come, for faults that wait for one.
  std::function<int()> num_signals = {};
  // Told before a result that is to have a wrong number; SpoilNextNumber().
  std::function<void(uint64_t offset)> spoil_number = {};
};

// The `step` of a ComputeLoop. A result is handed out when its round's time has
// passed since the plan came, or since the round before it in a lease; what the
// simulation itself takes is part of that time.
class StepRunner {
 public:
  // REQUIRES: Validate(options.engine) holds.
  explicit StepRunner(StepRunnerOptions options);

  // One thread. A round that hangs returns after Interrupt() alone, without a
  // result.
  absl::Status Step(const StepPlan& plan, const OnRound& on_round);

  // Ends every wait, now and later. Any thread.
  void Interrupt();

 private:
  using Clock = std::chrono::steady_clock;

  // Waits until `deadline`. Returns false once Interrupt() was called.
  bool WaitUntil(Clock::time_point deadline);
  Clock::duration TimeOf(const StepPlan& plan, double slowness) const;
  void ReportProblems();
  // The number of a signal that has come and had no round yet, or 0. Says on
  // stdout into which round of which lease it falls.
  int TakeSignal(int index, const StepPlan& plan);

  const StepRunnerOptions options_;
  SimulatedEngine engine_;
  int64_t num_rounds_ = 0;
  int num_signals_ = 0;       // Signals whose fault has happened.
  int64_t num_reported_ = 0;  // Problems of the memory.
  Mutex mutex_;
  CondVar interrupted_changed_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_STEP_RUNNER_H_
