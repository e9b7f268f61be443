// The plan that a worker is running.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_IN_FLIGHT_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_IN_FLIGHT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/placement.h"
#include "scheduler_service/replicas/validate_result.h"
#include "scheduler_service/watch/model_series.h"
#include "scheduler_service/watch/round_record.h"

namespace bole {

inline constexpr int kTokensPerRoundTimeout = 1024;

// A plan on its way to a worker, or back. For a lease, it describes the round
// that the worker answers next.
struct RoundInFlight {
  uint64_t plan_number;
  AwaitedRound awaited;
  // The placements that the plan's prefills and sequences belong to, in the
  // plan's order. One that has left since is null.
  std::vector<Placement*> prefills;
  std::vector<Placement*> sequences;
  // The trees from which the planned forest was selected, and its nodes'
  // numbers in them (as in PlannedRound).
  std::vector<ProposalTree> trees = {};
  std::vector<int32_t> tree_node = {};
  OffReason off_reason = OffReason::kNone;
  TimePoint started;   // For a lease, the arrival time of its latest result.
  TimePoint measured;  // The same, read from the clock, for metrics.
  TimePoint deadline;  // After it the awaited round is late.
  RoundMetrics metrics;
  // The flight recorder's record of the awaited round, and its number there.
  RoundRecord record = {};
  uint64_t record_number = 0;

  // The number of jobs in the plan, those that have left included.
  size_t num_planned() const { return prefills.size() + sequences.size(); }
  // The placements that have not left.
  std::vector<Placement*> placements() const;
  // Called when `placement` leaves.
  void Forget(const Placement& placement);
};

// The number of prefill tokens in `plan`.
int NumPrefillTokens(const StepPlan& plan);

// The time after which a round of `plan` that starts now is late.
TimePoint DeadlineOf(const StepPlan& plan, std::chrono::milliseconds timeout,
                     TimePoint now);

// The metrics of a round that are known when it is sent.
RoundMetrics MetricsOf(const StepPlan& plan);

// Counts the nodes of a forest that the worker chose.
void CountNodes(const PackedForest& forest, RoundMetrics& metrics);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_IN_FLIGHT_H_
