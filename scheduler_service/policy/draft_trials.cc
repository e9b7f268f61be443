#include "scheduler_service/policy/draft_trials.h"

#include <algorithm>

namespace bole {
namespace {

constexpr double kShare = 0.01;      // Share of the time for trials.
constexpr double kMostCredit = 1;    // Seconds.
constexpr double kLongestRound = 1;  // Time per plan that earns credit.

}  // namespace

void DraftTrials::Earn(double now) {
  const double passed =
      last_ ? std::clamp(now - *last_, 0.0, kLongestRound) : 0;
  last_ = now;
  credit_ = std::min(credit_ + kShare * passed, kMostCredit);
  earned_ += kShare * passed;
}

double DraftTrials::LossOf(const Offer& chosen, const Offer& other) {
  constexpr double kLeast = 0.1;
  if (!chosen.draft) {
    return kRounds * std::max(other.seconds - chosen.seconds, 0.0);
  }
  return kRounds * other.seconds *
         std::max(1 - other.rate / chosen.rate, kLeast);
}

bool DraftTrials::Tries(const Offer& chosen, const Offer& other, bool goes_well,
                        bool& begins) {
  begins = false;
  if (chosen.draft == other.draft) {
    rounds_left_ = 0;
    return false;
  }
  const double lost = LossOf(chosen, other);
  if (rounds_left_ > 0) {
    if (--rounds_left_ > 0) return true;
    if (!goes_well || rounds_ >= kMostRounds) return false;
    credit_ -= lost;
    rounds_ += kRounds;
    rounds_left_ = kRounds;
    return true;
  }
  ++since_;
  if (since_ < gap_ || credit_ < lost) return false;
  if (in_burst_ >= kMostInBurst && earned_ < lost) return false;
  in_burst_ = earned_ < lost ? in_burst_ + 1 : 0;
  earned_ = 0;
  begins = true;
  credit_ -= lost;
  since_ = 0;
  ++count_;
  // Trees teach most of what there is to know about chains.
  const bool is_wider =
      chosen.draft && chosen.draft->top_k > other.draft->top_k;
  gap_ = std::min(2 * gap_, is_wider ? kMostGapOfTrees : kMostGap);
  rounds_ = kRounds;
  rounds_left_ = kRounds;
  return true;
}

}  // namespace bole
