// The least of a scheduler that an engine needs, for tests.
#ifndef BOLE_TESTS_SIMULATION_PLAN_DRIVER_H_
#define BOLE_TESTS_SIMULATION_PLAN_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "common/step.h"
#include "common/trim_tree.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulated_engine.h"

namespace bole::simulation {

struct DriverOptions {
  int chunk = 64;                        // Tokens of a prefill chunk.
  std::optional<DraftShape> draft = {};  // Absent: no speculation.
  int nodes_per_tree = 1;
  int lease_rounds = 1;
  std::optional<int32_t> prompt_logprobs = {};
  int deferred_plans = 0;  // Without a draft, between two that have one.
};

// Sequences that run side by side, sequence i in slot i, with pages for a full
// context, every n-th of the engine's.
class PlanDriver {
 public:
  struct Sequence {
    std::vector<int32_t> prompt;
    SamplingParams sampling;
    int num_tokens = 0;  // To emit.
    std::vector<int32_t> stops = {};

    SlotId slot{0};
    std::vector<PageId> pages = {};
    std::vector<int32_t> tokens = {};  // Prompt and output.
    int committed = 0;
    int seen = 0;  // Of the committed tokens, by the drafter.
    ProposalTree tree = {};
    std::vector<EmittedToken> prompt_logprobs = {};
    bool ended = false;

    std::vector<int32_t> output() const {
      return {tokens.begin() + static_cast<int64_t>(prompt.size()),
              tokens.end()};
    }
  };

  PlanDriver(SimulatedEngine& engine, const DriverOptions& options,
             std::vector<Sequence> sequences)
      : engine_(engine), options_(options), sequences_(std::move(sequences)) {
    const StepLimits& limits = engine_.options().limits;
    const int count = static_cast<int>(sequences_.size());
    for (int i = 0; i < count; ++i) {
      sequences_[i].slot = SlotId(i);
      for (int page = 0; page < limits.MaxPages(); ++page) {
        sequences_[i].pages.push_back(PageId(page * count + i));
      }
      sequences_[i].tokens = sequences_[i].prompt;
    }
  }

  // Called with the number of each plan, from 1, before the plan runs.
  std::function<void(int number, StepPlan& plan)> tamper;

  // Loses what a worker holds of the sequence, as a preemption does: it moves
  // to `slot`, and its pages turn round.
  void Preempt(int index, SlotId slot) {
    sequences_[index].slot = slot;
    std::reverse(sequences_[index].pages.begin(),
                 sequences_[index].pages.end());
    sequences_[index].committed = 0;
    sequences_[index].seen = 0;
  }

  // Runs a plan and its lease. Returns false if all sequences have ended.
  bool RunPlan() {
    StepPlan plan = MakePlan();
    if (prefilled_.empty() && verified_.empty()) return false;
    ++number_;
    if (tamper) tamper(number_, plan);
    const absl::Status status = Validate(plan, engine_.options().limits);
    EXPECT_TRUE(status.ok()) << status;
    bool more = true;
    for (int round = 0; more; ++round) {
      StepResult result = engine_.RunRound(plan);
      more = engine_.FinishRound(round, plan, result);
      for (size_t i = 0; i < prefilled_.size(); ++i) {
        Apply(*prefilled_[i], std::move(result.prefills[i]));
      }
      for (size_t i = 0; i < verified_.size(); ++i) {
        Apply(*verified_[i], std::move(result.sequences[i]));
      }
    }
    for (Sequence* sequence : prefilled_) sequence->seen = sequence->committed;
    for (Sequence* sequence : verified_) {
      if (plan.draft) sequence->seen = sequence->committed;
    }
    return true;
  }

  const std::vector<Sequence>& Run() {
    while (RunPlan()) continue;
    return sequences_;
  }
  const std::vector<Sequence>& sequences() const { return sequences_; }

 private:
  // Tokens that have to be committed before a tree can be verified.
  static int Target(const Sequence& sequence) {
    const int size = static_cast<int>(sequence.tokens.size());
    const bool has_output = sequence.tokens.size() > sequence.prompt.size();
    return has_output ? size - 1 : size;
  }

  // What the drafter has to see before it drafts, or before there is more than
  // a slot keeps.
  std::vector<int32_t> Tail(const Sequence& sequence) const {
    const int length = sequence.committed - sequence.seen;
    constexpr int kMostOfAPlan = 32;
    if (defers_ && length + kMostOfAPlan <= kMaxDraftTail) return {};
    const auto pending = sequence.tokens.begin() + sequence.committed;
    return {pending - length + 1, pending + 1};
  }

  static SequencePlan PlanOf(const Sequence& sequence) {
    const int emitted =
        static_cast<int>(sequence.tokens.size() - sequence.prompt.size());
    return {.slot = sequence.slot,
            .committed = sequence.committed,
            .pages = sequence.pages,
            .sampling = sequence.sampling,
            .stop_tokens = sequence.stops,
            .prompt_length = static_cast<int>(sequence.prompt.size()),
            .max_new_tokens = sequence.num_tokens - emitted};
  }

  StepPlan MakePlan() {
    StepPlan plan;
    defers_ = options_.draft && options_.deferred_plans > 0 &&
              number_ % (options_.deferred_plans + 1) != 0;
    plan.defers_draft = defers_;
    if (!defers_) plan.draft = options_.draft;
    prefilled_.clear();
    verified_.clear();
    std::vector<ProposalTree> trees;
    for (Sequence& sequence : sequences_) {
      if (sequence.ended) continue;
      if (sequence.committed < Target(sequence)) {
        prefilled_.push_back(&sequence);
        plan.prefills.push_back(Chunk(sequence));
        continue;
      }
      SequencePlan planned = PlanOf(sequence);
      if (options_.deferred_plans > 0) planned.draft_tail = Tail(sequence);
      if (!planned.draft_tail.empty()) sequence.seen = sequence.committed;
      verified_.push_back(&sequence);
      plan.sequences.push_back(planned);
      trees.push_back(TrimTree(sequence.tree,
                               engine_.options().limits.max_context,
                               planned.max_new_tokens));
    }
    const int budget = options_.nodes_per_tree * static_cast<int>(trees.size());
    plan.forest =
        PackForest(trees, SelectNodes(trees, budget, options_.nodes_per_tree))
            .forest;
    if (options_.lease_rounds > 1 && plan.prefills.empty()) {
      plan.lease = {.rounds = options_.lease_rounds,
                    .budget = budget,
                    .max_nodes_per_tree = options_.nodes_per_tree};
    }
    return plan;
  }

  PrefillPlan Chunk(const Sequence& sequence) const {
    const int end =
        std::min(sequence.committed + options_.chunk, Target(sequence));
    PrefillPlan chunk{.sequence = PlanOf(sequence),
                      .tokens = {sequence.tokens.begin() + sequence.committed,
                                 sequence.tokens.begin() + end}};
    if (end < std::ssize(sequence.tokens)) {
      chunk.next_token = sequence.tokens[end];
    }
    chunk.prompt_logprobs = options_.prompt_logprobs;
    return chunk;
  }

  static void Apply(Sequence& sequence, SequenceResult result) {
    sequence.committed = result.committed;
    for (EmittedToken& token : result.prompt_logprobs) {
      sequence.prompt_logprobs.push_back(std::move(token));
    }
    for (const EmittedToken& emitted : result.emitted) {
      sequence.tokens.push_back(emitted.token);
      const auto& stops = sequence.stops;
      sequence.ended =
          std::ssize(sequence.output()) == sequence.num_tokens ||
          std::find(stops.begin(), stops.end(), emitted.token) != stops.end();
      if (sequence.ended) break;
    }
    sequence.tree = {{kNoParent}, {sequence.tokens.back()}, {0}};
    if (result.proposal) sequence.tree = *std::move(result.proposal);
  }

  SimulatedEngine& engine_;
  const DriverOptions options_;
  std::vector<Sequence> sequences_;
  std::vector<Sequence*> prefilled_;  // Sequences of the plan that runs,
  std::vector<Sequence*> verified_;   // in its order.
  int number_ = 0;
  bool defers_ = false;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_PLAN_DRIVER_H_
