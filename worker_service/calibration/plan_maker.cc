#include "worker_service/calibration/plan_maker.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/ids.h"
#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "common/status_macros.h"

namespace bole {
namespace {

ProposalTree LoneRoot(int32_t token) {
  return {.parent = {kNoParent}, .token = {token}, .log_rho = {0}};
}

}  // namespace

PlanMaker::PlanMaker(const StepLimits& limits, const CalibrationLayout& layout,
                     SamplingParams sampling)
    : limits_(limits),
      layout_(layout),
      sampling_(std::move(sampling)),
      slots_(layout.slots) {}

SequencePlan PlanMaker::SequenceOf(int slot, int committed) const {
  SequencePlan sequence{.slot = SlotId(slot), .committed = committed};
  for (int i = 0; i < layout_.pages_per_slot; ++i) {
    sequence.pages.emplace_back(slot * layout_.pages_per_slot + i);
  }
  sequence.sampling = sampling_;
  sequence.sampling.seed = static_cast<uint64_t>(slot);
  sequence.prompt_length = std::max(committed, 1);
  sequence.max_new_tokens = limits_.max_context;
  return sequence;
}

std::vector<int32_t> PlanMaker::RandomTokens(int count) {
  std::vector<int32_t> tokens(count);
  std::uniform_int_distribution<int32_t> token(0, limits_.vocabulary - 1);
  for (int32_t& next : tokens) next = token(rng_);
  return tokens;
}

std::vector<StepPlan> PlanMaker::Prefills() {
  std::vector<StepPlan> plans;
  for (int slot = 0; slot < layout_.slots; ++slot) {
    const int length = layout_.LengthOf(slot);
    for (int done = 0; done < length;) {
      int count = std::min(length - done, limits_.max_prefill_tokens);
      const bool is_last = done + count == length;
      if (!is_last && count > kPrefillGrid) count -= count % kPrefillGrid;
      PrefillPlan chunk{.sequence = SequenceOf(slot, done),
                        .tokens = RandomTokens(count)};
      chunk.sequence.prompt_length = length;
      if (!is_last) chunk.next_token = RandomTokens(1)[0];
      done += count;
      plans.emplace_back().prefills.push_back(std::move(chunk));
    }
  }
  return plans;
}

void PlanMaker::AddForest(const Combination& combination, int nodes_per_tree,
                          StepPlan& plan) const {
  std::vector<ProposalTree> trees;
  for (int slot = 0; slot < combination.requests; ++slot) {
    plan.sequences.push_back(SequenceOf(slot, combination.committed));
    const Slot& of = slots_[slot];
    plan.sequences.back().draft_tail = TailOf(of, combination.draft_tail);
    trees.push_back(nodes_per_tree > 1 && of.proposal ? *of.proposal
                                                      : LoneRoot(of.pending));
  }
  const std::vector<NodeRef> chosen =
      SelectNodes(trees, combination.requests * nodes_per_tree, nodes_per_tree);
  plan.forest = PackForest(trees, chosen).forest;
}

StepPlan PlanMaker::DeferringPlan(int index) const {
  StepPlan plan;
  AddForest({.requests = layout_.tail_requests,
             .committed = layout_.tail_length - layout_.most_tail + index},
            /*nodes_per_tree=*/1, plan);
  plan.defers_draft = true;
  return plan;
}

std::vector<int32_t> PlanMaker::TailOf(const Slot& slot, int count) {
  std::vector<int32_t> tail(slot.deferred.end() - count, slot.deferred.end());
  if (count > 0) tail.back() = slot.pending;
  return tail;
}

std::optional<StepPlan> PlanMaker::Before(
    const Combination& combination) const {
  if (combination.nodes_per_tree == 1) return std::nullopt;
  StepPlan plan;
  AddForest(combination, /*nodes_per_tree=*/1, plan);
  plan.draft = combination.draft;
  return plan;
}

StepPlan PlanMaker::PlanOf(const Combination& combination) {
  StepPlan plan;
  AddForest(combination, combination.nodes_per_tree, plan);
  plan.draft = combination.draft;
  if (combination.rounds > 1) {
    plan.lease =
        Lease{.rounds = combination.rounds,
              .budget = combination.requests * combination.nodes_per_tree,
              .max_nodes_per_tree = combination.nodes_per_tree};
  }
  if (combination.chunk > 0) {
    // The chunk does not end its prompt, like most chunks of long prompts.
    PrefillPlan chunk{
        .sequence = SequenceOf(layout_.slots - 1, combination.chunk_committed),
        .tokens = RandomTokens(combination.chunk),
        .next_token = RandomTokens(1)[0]};
    chunk.sequence.prompt_length = limits_.max_context;
    plan.prefills.push_back(std::move(chunk));
  }
  return plan;
}

absl::Status PlanMaker::Apply(const StepPlan& plan, const StepResult& result) {
  const auto apply = [&](const SequencePlan& sequence,
                         const SequenceResult& of) -> absl::Status {
    if (of.bad_logits_position) {
      return absl::InternalError(absl::StrCat("the model's logits at position ",
                                              *of.bad_logits_position,
                                              " are not numbers"));
    }
    if (of.emitted.empty()) return absl::OkStatus();
    Slot& slot = slots_[sequence.slot.value()];
    slot.pending = of.emitted.back().token;
    if (plan.defers_draft) slot.deferred.push_back(slot.pending);
    if (of.proposal) slot.proposal = of.proposal;
    return absl::OkStatus();
  };
  for (size_t i = 0; i < result.prefills.size(); ++i) {
    BOLE_RETURN_IF_ERROR(apply(plan.prefills[i].sequence, result.prefills[i]));
  }
  for (size_t i = 0; i < result.sequences.size(); ++i) {
    BOLE_RETURN_IF_ERROR(apply(plan.sequences[i], result.sequences[i]));
  }
  return absl::OkStatus();
}

}  // namespace bole
