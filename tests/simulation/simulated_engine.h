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
};

// INVALID_ARGUMENT, naming the option and its value, for options that
// contradict each other: an alphabet that is too small for the draft or not in
// the vocabulary, probabilities that are none.
absl::Status Validate(const SimulatedEngineOptions& options);

// The engine of a worker over SimulatedMemory, with the same contract for plans
// and results: prefill chunks, verification of trees, commits, proposals and
// leases. The rows of rejected nodes stay behind as garbage, and those of the
// drafter are overwritten with garbage.
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
  bool FinishRound(int index, StepPlan& plan, StepResult& result) const;

  // From now on the logits at `position` of what the slot holds are not
  // numbers: a sequence that comes there fails as in a real engine.
  void FailAt(SlotId slot, int position) { bad_[slot.value()] = position; }

  const SimulatedEngineOptions& options() const { return options_; }
  bool has_drafter() const { return !options_.accept.empty(); }

  // How often a plan named pages or a slot that hold something else than its
  // sequence's tokens, or did not show the drafter what it has to see before it
  // drafts, and what was wrong the last time.
  int64_t num_problems() const { return num_problems_; }
  const std::string& last_problem() const { return last_problem_; }

 private:
  bool Advance(StepPlan& plan, const StepResult& result) const;
  History Read(const SequencePlan& sequence);
  bool IsBad(const SequencePlan& sequence, int position) const;
  SequenceResult RunPrefill(const PrefillPlan& chunk, const StepPlan& plan);
  SequenceResult RunTree(const StepPlan& plan, int request);
  // Adds the proposal, and overwrites the rows that the drafter works in.
  void Draft(const SequencePlan& sequence, const TokenRule& rule,
             const History& history, const DraftShape& shape,
             SequenceResult& result);

  // What the drafter has not seen of the tokens of a slot.
  struct Unseen {
    std::vector<int32_t> tokens;
    bool for_good = false;
  };
  // Before and after a round of the sequence.
  void ShowTail(const SequencePlan& sequence, const StepPlan& plan);
  void ShowEmitted(const SequencePlan& sequence, const StepPlan& plan,
                   const SequenceResult& result);
  void Blame(std::string problem);

  const SimulatedEngineOptions options_;
  SimulatedMemory memory_;
  std::map<int32_t, Unseen> unseen_;  // By slot.
  std::map<int32_t, int> bad_;        // Slots to positions.
  int64_t num_problems_ = 0;
  std::string last_problem_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_ENGINE_H_
