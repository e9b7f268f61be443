// When to try a draft shape that is not currently chosen.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_TRIALS_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_TRIALS_H_

#include <cstdint>
#include <optional>

#include "common/draft_shape.h"
#include "scheduler_service/policy/draft_offers.h"

namespace bole {

// Plain decoding teaches nothing about drafts, and chains nothing about trees.
// So what is not chosen is tried for a few rounds, as long as all trials
// together cost no more than a hundredth of the time. Trials become rarer while
// they change nothing: down to one in 16 plans, or one in 64 for chains while
// trees are chosen, because trees teach most of what there is to know about
// chains. A trial that goes well, though not yet well enough for its shape to
// be chosen, is extended, up to eight times its length.
//
// Not thread-safe.
class DraftTrials {
 public:
  static constexpr int kRounds = 3;  // Length of a trial; each is a plan.

  // Must be called for every plan, at `now` seconds.
  void Earn(double now);
  // The seconds that a trial of `other` loses. Beside drafts, that is the loss
  // by the predicted rates, but at least a tenth of its time, since they are
  // uncertain. Beside plain decoding nothing is known, so it is the loss if no
  // draft is accepted.
  static double LossOf(const Offer& chosen, const Offer& other);
  // credit() is the seconds that trials may lose now; Spend() takes those that
  // they have lost from it.
  double credit() const { return credit_; }
  void Spend(double seconds) { credit_ -= seconds; }

  // Whether `other` is to be drafted as a trial instead of `chosen`. Must be
  // called for every plan in which something can be drafted. Sets `begins` in
  // the first round of a trial. `goes_well` is about the current trial.
  bool Tries(const Offer& chosen, const Offer& other, bool goes_well,
             bool& begins);
  void Stop() { rounds_left_ = 0; }  // Nothing can be drafted.
  bool on() const { return rounds_left_ > 0; }
  // How many trials have begun so far.
  int64_t count() const { return count_; }
  // Must be called when the chosen shape has changed.
  void Changed() {
    gap_ = kLeastGap;
    in_burst_ = 0;
  }

 private:
  static constexpr int64_t kLeastGap = 4;  // Plans.
  static constexpr int64_t kMostGap = 16;
  static constexpr int64_t kMostGapOfTrees = 64;

  // The most rounds of a trial that goes well.
  static constexpr int kMostRounds = 24;

  int rounds_left_ = 0;
  int rounds_ = 0;  // Rounds given to the last trial so far.
  int64_t count_ = 0;
  int64_t since_ = 0;  // Plans since the last one.
  int64_t gap_ = kLeastGap;
  double credit_ = 0;  // Seconds.
  // Saved credit may be spent on this many trials in a row; after that, credit
  // is spent no faster than it is earned.
  static constexpr int kMostInBurst = 6;
  int in_burst_ = 0;
  double earned_ = 0;  // Seconds, since the last trial.
  std::optional<double> last_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_TRIALS_H_
