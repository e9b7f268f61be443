// A scheduler with several workers, and requests whose output is known.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_FLEET_FIXTURE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_FLEET_FIXTURE_H_

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/scheduler_service/asked.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole::testing {

class SchedulerFleetTest : public FleetTest {
 protected:
  explicit SchedulerFleetTest(int num_workers = 2, int max_lease_rounds = 1)
      : FleetTest(num_workers, TreeOptions(), Limits(max_lease_rounds)) {}

  static StepLimits Limits(int max_lease_rounds) {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_lease_rounds = max_lease_rounds;
    return limits;
  }

  void AskOne(int prompt_length, int max_tokens) {
    Asked asked{.prompt = RandomPrompt(rng_, prompt_length),
                .max_tokens = max_tokens,
                .reader = {}};
    asked.reader = Ask(asked.prompt, max_tokens);
    asked_.push_back(std::move(asked));
    now_ += std::chrono::milliseconds(1);
  }
  void ExpectAllWhole() {
    for (Asked& asked : asked_) {
      ExpectOutput(asked.reader,
                   SimulatedOutput(asked.prompt, asked.max_tokens));
    }
    ExpectAllFree();
  }
  int RunningOn(int worker) {
    return scheduler_.status().workers[worker].running;
  }

  std::vector<Asked> asked_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_FLEET_FIXTURE_H_
