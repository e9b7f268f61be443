// A simulated worker in virtual time.
#ifndef BOLE_TESTS_SIMULATION_VIRTUAL_WORKER_H_
#define BOLE_TESTS_SIMULATION_VIRTUAL_WORKER_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "common/step_costs.h"
#include "common/trace/plan_trace.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/simulated_engine.h"

namespace bole::simulation {

struct VirtualWorkerOptions {
  SimulatedEngineOptions engine;
  StepCosts costs;
  double speed = 1;  // Step times are divided by it.
  std::vector<Fault> faults;
  // How long it takes to come back after it was lost.
  std::chrono::nanoseconds restart = std::chrono::seconds(1);
  std::string model = "simulated";
  // Whether the scheduler is told of the costs. Then the worker speaks this
  // version of the protocol, and else one that knows neither deferred drafts
  // nor the bounds of leases nor copies.
  bool is_calibrated = false;
};

// What a worker sees of the fleet that it is part of. Both calls return at
// once; what they lead to comes later, and never from within a call of the
// scheduler.
struct VirtualWorld {
  std::function<void(std::chrono::nanoseconds delay,
                     std::function<void()> action)>
      after;
  std::function<void(WorkerNews news)> tell;
};

// The rounds of StepRunner and a connection as GrpcWorkerClient keeps one, as
// events in virtual time: a result is told when its round's time has passed. A
// crash loses the connection, a hang lasts until the scheduler ends it, and
// after every loss the worker connects again with empty memory.
//
// Not thread-safe.
class VirtualWorker final : public WorkerClient {
 public:
  // REQUIRES: Validate(options.engine) holds.
  VirtualWorker(VirtualWorkerOptions options, VirtualWorld world);

  // Connects, now and after every loss, or stays away after the next one.
  void Join();
  void Leave() { joins_ = false; }
  // Wants to leave: the scheduler closes the connection once nothing runs.
  void Drain();

  void Send(uint64_t epoch, uint64_t plan_number, const StepPlan& plan,
            const PlanTrace& trace) override;
  void Close(uint64_t epoch) override;
  void Disconnect(uint64_t epoch, const absl::Status& why) override;

  bool connected() const { return engine_ != nullptr; }
  int64_t num_rounds() const { return num_rounds_; }
  // How often it failed, by FaultKind.
  const std::array<int64_t, kNumFaultKinds>& num_faults() const {
    return num_faults_;
  }
  // Plans that the scheduler may not send, and the last thing that was wrong.
  int64_t num_problems() const { return num_problems_; }
  const std::string& last_problem() const { return last_problem_; }

 private:
  void Connect();
  void Lose(const absl::Status& why);
  void StartRound();
  void EndRound(const RoundFaults& faults);
  void Blame(const std::string& problem);
  // Runs `action` after `delay` unless the connection has ended by then.
  void After(std::chrono::nanoseconds delay, std::function<void()> action);

  const VirtualWorkerOptions options_;
  const VirtualWorld world_;
  std::unique_ptr<SimulatedEngine> engine_;  // Null: not connected.
  bool joins_ = false;
  uint64_t epoch_ = 0;
  uint64_t plan_number_ = 0;
  StepPlan plan_;  // Of the round that runs.
  int round_ = 0;  // Of the plan.
  bool busy_ = false;
  std::chrono::nanoseconds round_time_{0};
  int64_t num_rounds_ = 0;
  std::array<int64_t, kNumFaultKinds> num_faults_{};
  int64_t num_problems_ = 0;
  std::string last_problem_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_VIRTUAL_WORKER_H_
