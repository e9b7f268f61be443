#include "scheduler_service/policy/draft_trials.h"

#include <algorithm>

namespace bole {
namespace {

constexpr double kShare = 0.01;      // Of the time.
constexpr double kMostCredit = 1;    // Seconds.
constexpr double kLongestRound = 1;  // Of time that earns credit.

// Seconds that a round of `other` loses: if it is as good as it seems, but at
// least a tenth, since nobody knows how good it is; or beside plain decoding,
// where nothing is known, if none of its drafts is accepted.
double LossOf(const Offer& chosen, const Offer& other) {
  constexpr double kLeast = 0.1;
  if (!chosen.draft) return std::max(other.seconds - chosen.seconds, 0.0);
  return other.seconds * std::max(1 - other.rate / chosen.rate, kLeast);
}

}  // namespace

bool DraftTrials::Tries(const Offer& chosen, const Offer& other, double now,
                        bool& begins) {
  begins = false;
  const double passed =
      last_ ? std::clamp(now - *last_, 0.0, kLongestRound) : 0;
  last_ = now;
  credit_ = std::min(credit_ + kShare * passed, kMostCredit);
  if (chosen.draft == other.draft) {
    rounds_left_ = 0;
    return false;
  }
  if (rounds_left_ > 0) return --rounds_left_ > 0;
  ++since_;
  const double lost = kRounds * LossOf(chosen, other);
  if (since_ < gap_ || credit_ < lost) return false;
  begins = true;
  credit_ -= lost;
  since_ = 0;
  ++count_;
  gap_ = std::min(2 * gap_, kMostGap);
  rounds_left_ = kRounds;
  return true;
}

}  // namespace bole
