#include "scheduler_service/policy/epsilon_policy.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "scheduler_service/policy/draft_offers.h"

namespace bole {

EpsilonPolicy::EpsilonPolicy(const PolicyOptions& options,
                             CalibratedWorker worker)
    : options_(options),
      worker_(std::move(worker)),
      bounds_(WidestBounds(ShapesOf(options.speculation, worker_.limits),
                           worker_.limits)) {}

int EpsilonPolicy::Budget(const RoundView& view, int most) const {
  const auto requests = static_cast<int>(view.sequences.size());
  PlannedWork work{
      .rows = requests, .requests = requests, .kv_tokens = view.kv_tokens};
  const double most_seconds =
      (1 + options_.epsilon) * worker_.costs.Seconds(work);
  int budget = requests;
  for (const int border : worker_.costs.Borders(requests, most, 0)) {
    work.rows = border;
    if (worker_.costs.Seconds(work) <= most_seconds) budget = border;
  }
  return budget;
}

RoundChoice EpsilonPolicy::Choose(const RoundView& view) {
  const auto requests = static_cast<int>(view.sequences.size());
  if (requests == 0) return {.draft = bounds_.draft};
  const int most = static_cast<int>(
      std::min<int64_t>(worker_.limits.max_nodes,
                        int64_t{requests} * bounds_.max_nodes_per_tree));
  RoundChoice choice{.budget = Budget(view, most), .draft = bounds_.draft};
  if (choice.budget == requests && worker_.can_defer) {
    choice.draft.reset();
    choice.defers_draft = true;
    choice.off_reason = OffReason::kNotFaster;
  }
  PredictAndLend(view, options_, worker_, choice);
  return choice;
}

void EpsilonPolicy::Observe(const RoundReport& report) {
  ObserveCosts(report, worker_.costs);
}

}  // namespace bole
