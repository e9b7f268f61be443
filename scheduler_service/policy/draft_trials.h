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
// nothing: chains beside trees, which teach most of what there is to know of
// them, a quarter as often as else. A trial that goes well, though not so well
// yet that its shape is chosen, goes on for as long again, up to eight times.
//
// Not thread-safe.
class DraftTrials {
 public:
  static constexpr int kRounds = 3;  // Of a trial, each a plan.

  // To be called for every plan, at `now` seconds.
  void Earn(double now);
  // The seconds that a trial of `other` loses: if it is as good as it seems,
  // but at least a tenth, since nobody knows how good it is; or beside plain
  // decoding, where nothing is known, if none of its drafts is accepted.
  static double LossOf(const Offer& chosen, const Offer& other);
  // Seconds that trials may lose now, and that they have lost.
  double credit() const { return credit_; }
  void Spend(double seconds) { credit_ -= seconds; }

  // To be called for every plan in which something can be drafted: whether
  // `other` is to be drafted as a trial instead of `chosen`. Sets `begins` in
  // the first round of a trial. `goes_well`: the one that is on does.
  bool Tries(const Offer& chosen, const Offer& other, bool goes_well,
             bool& begins);
  void Stop() { rounds_left_ = 0; }  // Nothing can be drafted.
  bool on() const { return rounds_left_ > 0; }
  // How many trials have begun so far.
  int64_t count() const { return count_; }
  // Another shape is chosen than before.
  void Changed() {
    gap_ = kLeastGap;
    in_burst_ = 0;
  }

 private:
  static constexpr int64_t kLeastGap = 4;  // Plans.
  static constexpr int64_t kMostGap = 16;
  static constexpr int64_t kMostGapOfTrees = 64;

  // A trial that goes well ends after so many rounds.
  static constexpr int kMostRounds = 24;

  int rounds_left_ = 0;
  int rounds_ = 0;  // How many the last trial was given so far.
  int64_t count_ = 0;
  int64_t since_ = 0;  // Plans since the last one.
  int64_t gap_ = kLeastGap;
  double credit_ = 0;  // Seconds.
  // What was saved up may be spent on so many trials in a row, and then no
  // faster than it is earned.
  static constexpr int kMostInBurst = 6;
  int in_burst_ = 0;
  double earned_ = 0;  // Seconds, since the last trial.
  std::optional<double> last_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_TRIALS_H_
