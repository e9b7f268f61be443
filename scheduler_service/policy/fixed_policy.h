// The same speculation in every round.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_FIXED_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_FIXED_POLICY_H_

#include "common/step.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {

// So many nodes for each sequence, whatever the batch, and the same shape of
// drafts, as far as the worker can: "fixed". Rounds are lent while nothing
// waits and nothing is prefilled.
class FixedPolicy final : public RoundPolicy {
 public:
  FixedPolicy(const Speculation& speculation, int lease_rounds)
      : speculation_(speculation), lease_rounds_(lease_rounds) {}

  RoundBounds BoundsFor(const StepLimits& limits,
                        bool has_drafter) const override;
  RoundChoice Choose(const RoundView& view) const override;

 private:
  const Speculation speculation_;
  const int lease_rounds_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_FIXED_POLICY_H_
