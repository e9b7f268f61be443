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
  // The same of requests whose prompts have an odd length, so that drafts come
  // true more often for some than for others. Empty: they are as all.
  std::vector<double> accept_of_odd = {};
  // What a worker says that its slots and pages hold: a 9B's, of 64 tokens.
  uint64_t slot_bytes = 53'500'000;
  uint64_t page_bytes = 2'359'296;
};

// INVALID_ARGUMENT, naming the option and its value, for options that
// contradict each other: an alphabet that is too small for the draft or not in
// the vocabulary, probabilities that are none.
absl::Status Validate(const SimulatedEngineOptions& options);

// The engine of a worker over SimulatedMemory, with the same contract for plans
// and results: prefill chunks, verification of trees, commits, proposals and
// leases, copies. The rows of rejected nodes stay behind as garbage, and those
// of the drafter's trees are overwritten with garbage. A drafter that has not
// seen all of a sequence, or whose pages hold something else than it wrote,
// proposes what is never right, and that is a problem of the plan.
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
  // numbers: a sequence that comes there fails as in a real engine.
  void FailAt(SlotId slot, int position) { bad_[slot.value()] = position; }

  const SimulatedEngineOptions& options() const { return options_; }
  bool has_drafter() const { return !options_.accept.empty(); }

  // How often a plan named pages or a slot that hold something else than its
  // sequence's tokens, gave a draft tail that is not what its drafter has
  // missed, or drafted without it. And what was wrong the last time: of one
  // round the first thing, from which others follow.
  int64_t num_problems() const { return num_problems_; }
  const std::string& last_problem() const { return last_problem_; }

 private:
  bool Advance(StepPlan& plan, const StepResult& result);
  History Read(const SequencePlan& sequence);
  void Report(std::string problem);
  // Before a round: the drafter sees the tail.
  void ShowTail(const SequencePlan& sequence, int32_t pending);
  // After it: when the drafter sees the tokens that the round committed.
  enum class Seen { kNow, kLater, kNever };
  // What a verified sequence commits.
  static Seen SeenAfter(const StepPlan& plan, const SequencePlan& sequence) {
    if (sequence.skips_drafter) return Seen::kNever;
    if (plan.draft) return Seen::kNow;
    return plan.defers_draft ? Seen::kLater : Seen::kNever;
  }
  // `next` follows the last of them.
  void ShowCommitted(const SequencePlan& sequence, Seen when,
                     std::span<const SimulatedMemory::Kept> tokens,
                     int32_t next);
  bool IsBad(const SequencePlan& sequence, int position) const;
  SequenceResult RunPrefill(const PrefillPlan& chunk, const StepPlan& plan);
  SequenceResult RunTree(const StepPlan& plan, int request);
  // Whether the drafter's rows are those of the history, which `next` follows.
  bool HasDrafts(const SequencePlan& sequence, const History& history,
                 int32_t next) const;
  // Adds the proposal, and overwrites the rows that the drafter works in.
  void Draft(const SequencePlan& sequence, const TokenRule& rule,
             const History& history, const DraftShape& shape,
             SequenceResult& result);

  const SimulatedEngineOptions options_;
  SimulatedMemory memory_;
  std::map<int32_t, int> bad_;  // Slots to positions.
  // Of a round whose forest Advance() chose, by sequence.
  std::vector<float> promised_;
  int64_t num_problems_ = 0;
  int64_t num_problems_before_ = 0;  // The round.
  std::string last_problem_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_ENGINE_H_
