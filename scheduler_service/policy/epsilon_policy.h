// The policy that verifies the largest forest that costs little more than plain
// decoding (Eq. 12).
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_EPSILON_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_EPSILON_POLICY_H_

#include "scheduler_service/policy/calibrated_worker.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// The budget is the largest N of T_ver(N) <= (1 + epsilon) T_dec, at a border
// of the worker's buckets: forwards without drafts are compared. The nodes are
// the likeliest of the batch. The requested tree is drafted as long as the
// budget is larger than the number of requests.
class EpsilonPolicy final : public RoundPolicy {
 public:
  EpsilonPolicy(const PolicyOptions& options, CalibratedWorker worker);

  const RoundBounds& bounds() const override { return bounds_; }
  RoundChoice Choose(const RoundView& view) override;
  void Observe(const RoundReport& report) override;

 private:
  int Budget(const RoundView& view, int most) const;

  const PolicyOptions options_;
  CalibratedWorker worker_;
  const RoundBounds bounds_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_EPSILON_POLICY_H_
