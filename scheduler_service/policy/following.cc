#include "scheduler_service/policy/following.h"

#include <algorithm>

namespace bole {

Following::Decision Following::Decide(const Turn& turn) {
  hopeless_ = turn.is_hopeless ? std::min(hopeless_ + 1, kHopelessPlans) : 0;
  if (turn.pays || !turn.is_known) {
    trials_ = turn.trials;
    probing_ = false;
    return {.keeps_up = true, .arrivals = turn.arrivals};
  }
  // The probe may have ended before its trial.
  if (turn.followed == 0) probing_ = false;
  const bool probes =
      turn.followed == 0 && turn.arrivals > 0 && turn.affords_probe;
  probing_ = probing_ || probes;
  const bool is_dormant =
      turn.trials >= trials_ + kTrials || hopeless_ == kHopelessPlans;
  const bool somebody = turn.followed > 0 || probes;
  return {.keeps_up = somebody && (probing_ || !is_dormant),
          .arrivals = probes ? 1 : 0,
          .probes = probes};
}

}  // namespace bole
