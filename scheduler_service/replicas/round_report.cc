#include "scheduler_service/replicas/round_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/draft_shape.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/policy/speculation.h"
#include "scheduler_service/replicas/placement.h"
#include "scheduler_service/watch/model_series.h"

namespace bole {
namespace {

const PackedForest& ForestOf(const RoundInFlight& round,
                             const StepResult& result) {
  return result.forest ? *result.forest : round.awaited.plan.forest;
}

std::span<const int32_t> NodesOf(const RoundInFlight& round, int sequence) {
  const std::vector<int32_t>& first = round.awaited.plan.forest.first_node;
  return std::span(round.tree_node)
      .subspan(first[sequence], first[sequence + 1] - first[sequence]);
}

double PromisedBy(const ProposalTree& tree, std::span<const int32_t> nodes) {
  double promised = 0;
  for (const int32_t node : nodes) {
    if (node != 0) promised += std::exp(tree.log_rho[node]);
  }
  return promised;
}

// The drafts that the drafter promised for the `sequence`-th tree of the round.
// Absent if the worker chose its nodes and does not tell.
std::optional<double> PromisedOf(const RoundInFlight& round,
                                 const StepResult& result, int sequence) {
  if (round.awaited.round > 0) {
    return result.sequences[sequence].promised_drafts;
  }
  return PromisedBy(round.trees[sequence], NodesOf(round, sequence));
}

// The verification of the `sequence`-th tree of the round.
Job::Round RoundOf(const RoundInFlight& round, const StepResult& result,
                   int sequence) {
  const PackedForest& forest = ForestOf(round, result);
  const int first = forest.first_node[sequence];
  const int last = forest.first_node[sequence + 1];
  Job::Round of{
      .nodes = last - first,
      .promised_drafts = PromisedOf(round, result, sequence).value_or(0),
      .accepted_drafts = result.sequences[sequence].accepted_drafts,
      .off_reason = round.off_reason};
  for (int node = first; node < last; ++node) {
    of.is_chain = of.is_chain && forest.depth[node] == node - first;
  }
  if (of.off_reason == OffReason::kNone) {
    const auto& own = round.sequences[sequence]->job().request().speculation;
    of.off_reason = own && own->mode == SpeculationMode::kOff
                        ? OffReason::kAsked
                        : OffReason::kNotFaster;
  }
  return of;
}

// Counts the promised and the accepted drafts of trees for which both are
// known.
void CountPromised(const StepResult& result, RoundInFlight& round) {
  for (size_t b = 0; b < result.sequences.size(); ++b) {
    const SequenceResult& of = result.sequences[b];
    if (of.emitted.empty() || of.bad_logits_position) continue;
    const auto promised = PromisedOf(round, result, static_cast<int>(b));
    if (!promised) continue;
    round.metrics.promised_drafts += *promised;
    round.metrics.kept_drafts += of.accepted_drafts;
  }
}

// Counts how deep the verified trees were, and how deep they were accepted.
void CountDepths(const StepResult& result, RoundInFlight& round) {
  const PackedForest& forest = ForestOf(round, result);
  const auto count_to = [](int depth, CountsByDepth& counts) {
    for (int i = 0; i < std::min(depth, kMaxDraftDepth); ++i) ++counts[i];
  };
  for (size_t b = 0; b < result.sequences.size(); ++b) {
    const SequenceResult& of = result.sequences[b];
    if (of.emitted.empty() || of.bad_logits_position) continue;
    const auto first = forest.depth.begin() + forest.first_node[b];
    const auto last = forest.depth.begin() + forest.first_node[b + 1];
    if (first == last) continue;
    count_to(*std::max_element(first, last), round.metrics.verified_at);
    count_to(of.accepted_drafts, round.metrics.accepted_at);
  }
}

// Tells jobs and placements what the round was for them.
void TellPlacements(const StepResult& result, const RoundInFlight& round) {
  for (size_t b = 0; b < round.sequences.size(); ++b) {
    Placement* const placement = round.sequences[b];
    if (placement == nullptr) continue;
    if (!round.awaited.plan.sequences[b].draft_tail.empty()) {
      placement->SawTail();
    }
    const SequenceResult& of = result.sequences[b];
    if (of.emitted.empty() && !of.bad_logits_position) continue;
    placement->job().CountRound(RoundOf(round, result, static_cast<int>(b)));
  }
}

}  // namespace

RoundQuantities QuantitiesOf(const AwaitedRound& awaited,
                             const StepResult& result) {
  RoundQuantities quantities = QuantitiesOf(awaited.plan);
  if (!result.forest) return quantities;
  // The plan's forest has lone roots.
  const double drafts =
      result.forest->num_nodes() - awaited.plan.forest.num_nodes();
  for (const Quantity quantity :
       {Quantity::kRows, Quantity::kForwardRows, Quantity::kDraftRows}) {
    quantities[static_cast<size_t>(quantity)] += drafts;
  }
  return quantities;
}

void ReportRound(const StepResult& result, RoundInFlight& round,
                 RoundPolicy& policy) {
  TellPlacements(result, round);
  CountPromised(result, round);
  CountDepths(result, round);
  const bool is_first = round.awaited.round == 0;
  std::vector<std::vector<int32_t>> emitted(round.trees.size());
  std::vector<TreeReport> trees;
  trees.reserve(round.trees.size());
  for (size_t b = 0; is_first && b < round.trees.size(); ++b) {
    const SequenceResult& of = result.sequences[b];
    if (of.emitted.empty() || of.bad_logits_position) continue;
    for (const EmittedToken& token : of.emitted) {
      emitted[b].push_back(token.token);
    }
    Placement* const placement = round.sequences[b];
    const auto nodes = NodesOf(round, static_cast<int>(b));
    trees.push_back({.tree = round.trees[b],
                     .selected = nodes,
                     .emitted = emitted[b],
                     .accepted = of.accepted_drafts,
                     .acceptance = placement == nullptr
                                       ? nullptr
                                       : &placement->job().acceptance});
  }
  const RoundMetrics& metrics = round.metrics;
  policy.Observe({.quantities = QuantitiesOf(round.awaited, result),
                  .step_seconds = metrics.step_seconds,
                  .trip_seconds = std::max(
                      metrics.round_seconds - metrics.step_seconds, 0.0),
                  .is_first = is_first,
                  .trees = trees});
}

}  // namespace bole
