#include "scheduler_service/policy/calibrated_worker.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace bole {

RoundBounds WidestBounds(std::span<const std::optional<DraftShape>> shapes,
                         const StepLimits& limits) {
  RoundBounds bounds;
  for (const std::optional<DraftShape>& shape : shapes) {
    if (!shape) continue;
    DraftShape most = bounds.draft.value_or(*shape);
    most.top_k = std::max(most.top_k, shape->top_k);
    most.depth = std::max(most.depth, shape->depth);
    bounds.draft = most;
    bounds.max_nodes_per_tree =
        std::min(limits.max_nodes_per_tree, 1 + most.num_candidates());
  }
  return bounds;
}

int LeaseRounds(const PolicyOptions& options, const StepLimits& limits,
                double round_seconds) {
  const int most = std::min(options.lease_rounds, limits.max_lease_rounds);
  const std::chrono::duration<double> bound = options.max_lease;
  if (round_seconds * most <= bound.count()) return std::max(most, 1);
  return std::max(static_cast<int>(bound.count() / round_seconds), 1);
}

void PredictAndLend(const RoundView& view, const PolicyOptions& options,
                    const CalibratedWorker& worker, RoundChoice& choice) {
  choice.predicted_seconds = worker.costs.Seconds(
      PlannedWork{.rows = choice.budget,
                  .requests = static_cast<int>(view.sequences.size()),
                  .kv_tokens = view.kv_tokens,
                  .prefill_tokens = std::min<int64_t>(
                      view.prefill_tokens, worker.limits.max_prefill_tokens),
                  .draft = choice.draft});
  choice.lease_budget = choice.budget;
  if (view.others_wait || view.prefill_tokens > 0) return;
  choice.lease_rounds =
      LeaseRounds(options, worker.limits, choice.predicted_seconds);
}

void ObserveCosts(const RoundReport& report, CostModel& costs) {
  if (report.step_seconds <= 0) return;
  // The time of a plan's first round includes what the engine does once per
  // plan, which the table counts as part of the trip.
  const double once =
      report.is_first ? std::clamp(costs.trip_seconds() - report.trip_seconds,
                                   0.0, report.step_seconds / 8)
                      : 0;
  costs.Observe(report.quantities, report.step_seconds - once);
  if (report.is_first) costs.ObserveTrip(report.trip_seconds);
}

}  // namespace bole
