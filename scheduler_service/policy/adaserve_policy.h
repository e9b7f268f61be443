// A policy with a fixed capacity: it first serves floors from latency targets,
// then the likeliest nodes.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_ADASERVE_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_ADASERVE_POLICY_H_

#include "scheduler_service/policy/calibrated_worker.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// AdaServe's allocation, for comparison: every round verifies as many nodes as
// the capacity allows and drafts the requested tree. Requests that are behind
// their target first get the nodes that, by the drafter's probabilities, bring
// them back in time; the rest of the capacity goes to the likeliest nodes.
class AdaServePolicy final : public RoundPolicy {
 public:
  AdaServePolicy(const PolicyOptions& options, CalibratedWorker worker);

  const RoundBounds& bounds() const override { return bounds_; }
  RoundChoice Choose(const RoundView& view) override;
  void Observe(const RoundReport& report) override;

 private:
  const PolicyOptions options_;
  CalibratedWorker worker_;
  const RoundBounds bounds_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_ADASERVE_POLICY_H_
