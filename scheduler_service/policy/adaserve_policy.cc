#include "scheduler_service/policy/adaserve_policy.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/draft_offers.h"
#include "scheduler_service/policy/latency_floors.h"

namespace bole {

AdaServePolicy::AdaServePolicy(const PolicyOptions& options,
                               CalibratedWorker worker)
    : options_(options),
      worker_(std::move(worker)),
      bounds_(WidestBounds(ShapesOf(options.speculation, worker_.limits),
                           worker_.limits)) {}

RoundChoice AdaServePolicy::Choose(const RoundView& view) {
  RoundChoice choice{.draft = bounds_.draft};
  const auto requests = static_cast<int>(view.trees.size());
  if (requests == 0) return choice;
  choice.budget = std::clamp(options_.capacity, requests,
                             std::max(worker_.limits.max_nodes, requests));
  choice.predicted_seconds = worker_.costs.Seconds(
      PlannedWork{.rows = choice.budget,
                  .requests = requests,
                  .kv_tokens = view.kv_tokens,
                  .prefill_tokens = std::min<int64_t>(
                      view.prefill_tokens, worker_.limits.max_prefill_tokens),
                  .draft = choice.draft});
  choice.bounds = FloorsFor(view, choice.predicted_seconds, choice.budget,
                            bounds_.max_nodes_per_tree, /*acceptance=*/nullptr);
  choice.lease_budget = choice.budget;
  choice.lease_bounds = choice.bounds;
  if (!view.others_wait && view.prefill_tokens == 0) {
    choice.lease_rounds =
        LeaseRounds(options_, worker_.limits, choice.predicted_seconds);
  }
  return choice;
}

void AdaServePolicy::Observe(const RoundReport& report) {
  ObserveCosts(report, worker_.costs);
}

}  // namespace bole
