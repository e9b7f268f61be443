#include "scheduler_service/replicas/round_in_flight.h"

#include <algorithm>
#include <iterator>

namespace bole {

std::vector<Placement*> RoundInFlight::placements() const {
  std::vector<Placement*> there;
  for (const auto* placements : {&prefills, &sequences}) {
    std::copy_if(
        placements->begin(), placements->end(), std::back_inserter(there),
        [](const Placement* placement) { return placement != nullptr; });
  }
  return there;
}

void RoundInFlight::Forget(const Placement& placement) {
  for (auto* placements : {&prefills, &sequences}) {
    std::replace_if(
        placements->begin(), placements->end(),
        [&](const Placement* other) { return other == &placement; }, nullptr);
  }
}

int NumPrefillTokens(const StepPlan& plan) {
  int tokens = 0;
  for (const PrefillPlan& chunk : plan.prefills) {
    tokens += static_cast<int>(chunk.tokens.size());
  }
  return tokens;
}

TimePoint DeadlineOf(const StepPlan& plan, std::chrono::milliseconds timeout,
                     TimePoint now) {
  const double share =
      1 + static_cast<double>(NumPrefillTokens(plan)) / kTokensPerRoundTimeout;
  const std::chrono::duration<double, std::milli> scaled = timeout;
  return now + std::chrono::duration_cast<TimePoint::duration>(scaled * share);
}

RoundMetrics MetricsOf(const StepPlan& plan) {
  RoundMetrics metrics;
  metrics.sequences = static_cast<int>(plan.sequences.size());
  metrics.nodes = plan.forest.num_nodes();
  metrics.draft_nodes = metrics.nodes - metrics.sequences;
  metrics.prefill_tokens = NumPrefillTokens(plan);
  return metrics;
}

void CountNodes(const PackedForest& forest, RoundMetrics& metrics) {
  metrics.nodes = forest.num_nodes();
  metrics.sequences = 0;
  for (int b = 0; b < forest.num_requests(); ++b) {
    metrics.sequences +=
        forest.first_node[b + 1] > forest.first_node[b] ? 1 : 0;
  }
  metrics.draft_nodes = metrics.nodes - metrics.sequences;
}

}  // namespace bole
