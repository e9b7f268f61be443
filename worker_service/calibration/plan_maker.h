// Plans of the rounds that are measured.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_PLAN_MAKER_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_PLAN_MAKER_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "common/proposal_tree.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "worker_service/calibration/combinations.h"

namespace bole {

// Makes plans as a scheduler would, for requests with random prompts. Every
// slot is prefilled once. From then on a round may begin at any length up to
// that: keys and values before it are those of the text, the state is that of a
// text of the same model that has gone on elsewhere, and trees are what the
// drafter proposed in the round before, so that paths are as long as they are.
class PlanMaker {
 public:
  // `limits` must outlive it.
  PlanMaker(const StepLimits& limits, const CalibrationLayout& layout,
            SamplingParams sampling);

  // The plans that prefill every slot, in order.
  std::vector<StepPlan> Prefills();

  // The plans after those, one for each token of the longest draft tail: they
  // commit it and defer the draft, so that slots keep what tails need.
  // REQUIRES: Apply() was told the result of the one before.
  StepPlan DeferringPlan(int index) const;

  // The round before one of `combination`, if that has trees: it proposes them.
  std::optional<StepPlan> Before(const Combination& combination) const;

  // REQUIRES: Before() ran, or another round of this combination, and Apply()
  // was told its last result. For draft tails, all deferring plans have run.
  StepPlan PlanOf(const Combination& combination);

  // Takes pending tokens and proposals from a result of `plan`. INTERNAL: the
  // model's logits are not numbers, naming the position.
  absl::Status Apply(const StepPlan& plan, const StepResult& result);

 private:
  struct Slot {
    int32_t pending = 0;
    std::optional<ProposalTree> proposal;
    std::vector<int32_t> deferred;  // What deferring plans emitted.
  };

  SequencePlan SequenceOf(int slot, int committed) const;
  std::vector<int32_t> RandomTokens(int count);
  // The last `count` tokens of a slot that deferred drafts.
  static std::vector<int32_t> TailOf(const Slot& slot, int count);
  // Adds sequences, and a forest of as many of their trees' nodes.
  void AddForest(const Combination& combination, int nodes_per_tree,
                 StepPlan& plan) const;

  const StepLimits& limits_;
  const CalibrationLayout layout_;
  const SamplingParams sampling_;
  std::mt19937 rng_;
  std::vector<Slot> slots_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_PLAN_MAKER_H_
