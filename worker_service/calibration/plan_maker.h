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
// slot is prefilled once. After that, a round may begin at any length up to the
// prefilled one. The keys and values before it are those of the slot's text.
// The recurrent state is the one that the slot's last round left, which belongs
// to another length but is as good for measuring. Trees are what the drafter
// proposed in the previous round, so that accepted paths have realistic
// lengths.
class PlanMaker {
 public:
  // `limits` must outlive it.
  PlanMaker(const StepLimits& limits, const CalibrationLayout& layout,
            SamplingParams sampling);

  // The plans that prefill every slot, in order.
  std::vector<StepPlan> Prefills();

  // The plans that follow Prefills(), one for each token of the longest draft
  // tail: each commits a token and defers the draft, so that the slots keep the
  // hidden vectors that tails need.
  // REQUIRES: Apply() was called with the result of the previous plan.
  StepPlan DeferringPlan(int index) const;

  // The round that proposes the trees for a round of `combination`. Nothing if
  // that has no trees.
  std::optional<StepPlan> Before(const Combination& combination) const;

  // A round of `combination`.
  // REQUIRES: the plan of Before() or another round of this combination ran,
  // and Apply() was called with its last result. For draft tails, all deferring
  // plans have run.
  StepPlan PlanOf(const Combination& combination);

  // Takes the pending tokens and the proposals from a result of `plan`.
  // INTERNAL, naming the position: the model's logits are not numbers.
  absl::Status Apply(const StepPlan& plan, const StepResult& result);

 private:
  struct Slot {
    int32_t pending = 0;
    std::optional<ProposalTree> proposal;
    std::vector<int32_t> deferred;  // Tokens that deferring plans emitted.
  };

  SequencePlan SequenceOf(int slot, int committed) const;
  std::vector<int32_t> RandomTokens(int count);
  // The last `count` tokens of a slot that deferred drafts.
  static std::vector<int32_t> TailOf(const Slot& slot, int count);
  // Adds the combination's sequences, and a forest with `nodes_per_tree` nodes
  // of each one's tree.
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
