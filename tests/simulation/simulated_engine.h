// Runs step plans without a model.
#ifndef BOLE_TESTS_SIMULATION_SIMULATED_ENGINE_H_
#define BOLE_TESTS_SIMULATION_SIMULATED_ENGINE_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/step.h"
#include "tests/simulation/simulated_memory.h"
#include "tests/simulation/simulated_text.h"

namespace bole::simulation {

struct SimulatedEngineOptions {
  StepLimits limits;
  TextOptions text;
  // As Propose() takes them. Empty: there is no drafter.
  std::vector<double> accept = {0.8};
  // The same for requests whose prompts have an odd length, so that drafts are
  // right more often for some requests than for others. Empty: `accept` applies
  // to all.
  std::vector<double> accept_of_odd = {};
  // The sizes that a worker reports for its slots and pages: those of a 9B
  // model with pages of 64 tokens.
  uint64_t slot_bytes = 53'500'000;
  uint64_t page_bytes = 2'359'296;
};

// INVALID_ARGUMENT, naming the option and its value, for options that
// contradict each other: an alphabet that is too small for the draft or not in
// the vocabulary, or probabilities outside of [0, 1].
absl::Status Validate(const SimulatedEngineOptions& options);

// The engine of a worker over SimulatedMemory, with the same contract for plans
// and results: prefill chunks, verification of trees, commits, proposals and
// leases, copies. The rows of rejected nodes stay behind as garbage, and those
// of the drafter's trees are overwritten with garbage. A drafter that has not
// seen all of a sequence, or whose pages do not hold what it wrote, proposes
// tokens that are never right, and this counts as a problem of the plan.
//
// Not thread-safe.
class SimulatedEngine {
 public:
  // REQUIRES: Validate() holds for the options.
  explicit SimulatedEngine(SimulatedEngineOptions options);

  // One round: the plan's own, or one that FinishRound() has made of it.
  // REQUIRES: Validate(plan, limits) holds for the first round.
  StepResult RunRound(const StepPlan& plan);

  // Completes the result of round `index` of the plan: its number, its forest,
  // whether it is the last. Returns whether another round of the lease follows,
  // and turns the plan into that one's: the forest is chosen from the
  // proposals, and sequences that have ended keep their place without nodes.
  bool FinishRound(int index, StepPlan& plan, StepResult& result);

  // From now on the logits at `position` of what the slot holds are not
  // numbers: a sequence that reaches it fails as in a real engine.
  void FailAt(SlotId slot, int position) { bad_[slot.value()] = position; }

  const SimulatedEngineOptions& options() const { return options_; }
  bool has_drafter() const { return !options_.accept.empty(); }

  // How often a plan named pages or a slot that do not hold its sequence's
  // tokens, gave a draft tail that is not what its drafter has missed, or
  // drafted without it. last_problem() is the first problem of the latest round
  // that had any, because others follow from the first.
  int64_t num_problems() const { return num_problems_; }
  const std::string& last_problem() const { return last_problem_; }

 private:
  bool Advance(StepPlan& plan, const StepResult& result);
  History Read(const SequencePlan& sequence);
  void Report(std::string problem);
  // Shows the drafter the tail, before a round.
  void ShowTail(const SequencePlan& sequence, int32_t pending);
  // When the drafter sees the tokens that a round has committed.
  enum class Seen { kNow, kLater, kNever };
  // When it sees the tokens that a verified sequence commits.
  static Seen SeenAfter(const StepPlan& plan, const SequencePlan& sequence) {
    if (sequence.skips_drafter) return Seen::kNever;
    if (plan.draft) return Seen::kNow;
    return plan.defers_draft ? Seen::kLater : Seen::kNever;
  }
  // Shows or keeps the tokens that a round has committed; `next` follows them.
  void ShowCommitted(const SequencePlan& sequence, Seen when,
                     std::span<const SimulatedMemory::Kept> tokens,
                     int32_t next);
  bool IsBad(const SequencePlan& sequence, int position) const;
  SequenceResult RunPrefill(const PrefillPlan& chunk, const StepPlan& plan);
  SequenceResult RunTree(const StepPlan& plan, int request);
  // Whether the drafter's rows are those of the history, followed by `next`.
  bool HasDrafts(const SequencePlan& sequence, const History& history,
                 int32_t next) const;
  // Adds the proposal, and overwrites the rows that the drafter works in.
  void Draft(const SequencePlan& sequence, const TokenRule& rule,
             const History& history, const DraftShape& shape,
             SequenceResult& result);

  const SimulatedEngineOptions options_;
  SimulatedMemory memory_;
  std::map<int32_t, int> bad_;  // Slots to positions.
  // By sequence, for a round whose forest Advance() chose.
  std::vector<float> promised_;
  int64_t num_problems_ = 0;
  int64_t num_problems_before_ = 0;  // Before the current round.
  std::string last_problem_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_ENGINE_H_
