#include "tests/simulation/step_runner.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace bole::simulation {

StepRunner::StepRunner(StepRunnerOptions options)
    : options_(std::move(options)), engine_(options_.engine) {}

absl::Status StepRunner::Step(const StepPlan& plan, const OnRound& on_round) {
  StepPlan next = plan;
  Clock::time_point deadline = Clock::now();
  bool more = true;
  for (int index = 0; more; ++index) {
    const RoundFaults faults =
        FaultsOf(options_.faults, ++num_rounds_, TakeSignal(index, plan));
    if (faults.crash) std::_Exit(kCrashExitCode);
    if (faults.hang) {
      while (WaitUntil(Clock::time_point::max())) continue;
      return absl::OkStatus();
    }
    deadline += TimeOf(next, faults.slowness);
    StepResult result = engine_.RunRound(next);
    ReportProblems();
    more = engine_.FinishRound(index, next, result);
    Spoil(faults, options_.engine.limits, result);
    if (options_.speed > 0) WaitUntil(deadline);
    if (faults.garbage == Garbage::kNumber && options_.spoil_number) {
      options_.spoil_number(1 + faults.bits % 1000);
    }
    on_round(std::move(result));
  }
  return absl::OkStatus();
}

StepRunner::Clock::duration StepRunner::TimeOf(const StepPlan& plan,
                                               double slowness) const {
  if (options_.speed <= 0) return Clock::duration::zero();
  return std::chrono::duration_cast<Clock::duration>(
      options_.costs.TimeOf(plan) * (slowness / options_.speed));
}

int StepRunner::TakeSignal(int index, const StepPlan& plan) {
  if (!options_.num_signals || options_.num_signals() <= num_signals_) return 0;
  std::printf("signal %d: round %d of %d\n", ++num_signals_, index + 1,
              plan.lease ? plan.lease->rounds : 1);
  std::fflush(stdout);
  return num_signals_;
}

void StepRunner::Interrupt() {
  MutexLock lock(mutex_);
  interrupted_ = true;
  interrupted_changed_.NotifyAll();
}

bool StepRunner::WaitUntil(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!interrupted_) {
    if (!interrupted_changed_.WaitUntil(mutex_, deadline)) break;
  }
  return !interrupted_;
}

void StepRunner::ReportProblems() {
  if (engine_.num_problems() == num_reported_) return;
  num_reported_ = engine_.num_problems();
  std::fprintf(stderr, "bole-sim-worker: round %lld: %s\n",
               static_cast<long long>(num_rounds_),
               engine_.last_problem().c_str());
}

}  // namespace bole::simulation
