#include "scheduler_service/policy/table_watch.h"

#include <algorithm>
#include <cmath>

namespace bole {

void TableWatch::Observe(const RoundReport& report) {
  policy_->Observe(report);
  if (report.step_seconds <= 0) return;
  const double predicted = table_.Seconds(report.quantities);
  if (predicted <= 0) return;
  // A round that was interrupted, or whose time is meaningless, counts no more
  // than one that is four times off.
  const double most = std::log(4.0);
  constexpr double kShare = 0.01;
  const double ratio =
      std::clamp(std::log(report.step_seconds / predicted), -most, most);
  log_ratio_ += kShare * (ratio - log_ratio_);
  ++num_rounds_;
}

const char* TableWatch::fallback() const {
  const bool is_stale = num_rounds_ >= kMinRounds &&
                        std::abs(log_ratio_) > std::log(kStaleFactor);
  return is_stale ? "stale_table" : policy_->fallback();
}

}  // namespace bole
