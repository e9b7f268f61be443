// The policy that speculates in the same way in every round.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_FIXED_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_FIXED_POLICY_H_

#include <string>
#include <utility>

#include "common/step.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {

// Bounds for the requested speculation, as far as the worker supports it.
RoundBounds BoundsFor(const Speculation& speculation, const StepLimits& limits,
                      bool has_drafter);

// A fixed number of nodes for each sequence, whatever the batch, and a fixed
// shape of drafts, as far as the worker supports them: the policy "fixed", and
// without speculation "off". Rounds are lent while nothing waits and nothing is
// prefilled.
class FixedPolicy final : public RoundPolicy {
 public:
  // `fallback`: why it replaces another policy; empty if it does not.
  FixedPolicy(const RoundBounds& bounds, int lease_rounds, OffReason if_off,
              std::string fallback = "")
      : bounds_(bounds),
        lease_rounds_(lease_rounds),
        if_off_(if_off),
        fallback_(std::move(fallback)) {}

  const RoundBounds& bounds() const override { return bounds_; }
  RoundChoice Choose(const RoundView& view) override;
  const char* fallback() const override { return fallback_.c_str(); }

 private:
  const RoundBounds bounds_;
  const int lease_rounds_;
  const OffReason if_off_;
  const std::string fallback_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_FIXED_POLICY_H_
