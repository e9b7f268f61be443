#include "scheduler_service/policy/adaserve_policy.h"

#include <algorithm>
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
  PredictAndLend(view, options_, worker_, choice);
  choice.bounds = FloorsFor(view, choice.predicted_seconds, choice.budget,
                            bounds_.max_nodes_per_tree, /*acceptance=*/nullptr);
  choice.lease_bounds = choice.bounds;
  return choice;
}

void AdaServePolicy::Observe(const RoundReport& report) {
  ObserveCosts(report, worker_.costs);
}

}  // namespace bole
