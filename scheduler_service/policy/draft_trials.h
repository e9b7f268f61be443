// When to try again what is not done.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_TRIALS_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_TRIALS_H_

#include <cstdint>
#include <optional>

#include "common/draft_shape.h"
#include "scheduler_service/policy/draft_offers.h"

namespace bole {

// Plain decoding teaches nothing of drafts, and chains nothing of trees. So
// what is not chosen is tried for a few rounds, if all trials together cost no
// more than a hundredth of the time, and ever more rarely while they change
// nothing.
//
// Not thread-safe.
class DraftTrials {
 public:
  static constexpr int kRounds = 3;  // Of a trial, each a plan.

  // To be called for every plan, at `now` seconds: whether `other` is to be
  // drafted as a trial instead of `chosen`. Sets `begins` in the first round of
  // a trial.
  bool Tries(const Offer& chosen, const Offer& other, double now, bool& begins);
  bool on() const { return rounds_left_ > 0; }
  int64_t count() const { return count_; }  // That have begun.
  // Another shape is chosen than before.
  void Changed() { gap_ = kLeastGap; }

 private:
  static constexpr int64_t kLeastGap = 4;  // Plans.
  static constexpr int64_t kMostGap = 16;

  int rounds_left_ = 0;
  int64_t count_ = 0;
  int64_t since_ = 0;  // Plans since the last one.
  int64_t gap_ = kLeastGap;
  double credit_ = 0;  // Seconds.
  std::optional<double> last_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_TRIALS_H_
