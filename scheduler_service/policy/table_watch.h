// Checks whether a worker's table of costs still holds.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_TABLE_WATCH_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_TABLE_WATCH_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// Decides as another policy does, and compares each round's time with what the
// table says, without the corrections that policies learn. Its fallback is
// "stale_table" while rounds take more than 1.5 times, or less than two thirds
// of, the table's time in the geometric mean of the last few hundred.
//
// Not thread-safe.
class TableWatch final : public RoundPolicy {
 public:
  // No verdict before this many rounds: the first ones are captured.
  static constexpr int64_t kMinRounds = 200;
  static constexpr double kStaleFactor = 1.5;

  TableWatch(std::unique_ptr<RoundPolicy> policy, CostModel table)
      : policy_(std::move(policy)), table_(std::move(table)) {}

  const RoundBounds& bounds() const override { return policy_->bounds(); }
  RoundChoice Choose(const RoundView& view) override {
    return policy_->Choose(view);
  }
  bool urgent_first() const override { return policy_->urgent_first(); }
  void Observe(const RoundReport& report) override;
  const char* fallback() const override;

 private:
  const std::unique_ptr<RoundPolicy> policy_;
  const CostModel table_;  // Never told of any round.
  int64_t num_rounds_ = 0;
  double log_ratio_ = 0;  // Measured over the table's, a running mean.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_TABLE_WATCH_H_
