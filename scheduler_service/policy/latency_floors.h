// The tokens and nodes that requests need to keep their latency targets.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_LATENCY_FLOORS_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_LATENCY_FLOORS_H_

#include <vector>

#include "common/proposal_tree.h"
#include "scheduler_service/policy/acceptance.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// The tokens that a round of `round_seconds` has to emit for the request to be
// in time after it; 0 or less if it is in time anyway, or has no target.
double TokensNeeded(const SequenceView& of, double round_seconds);

// For each tree, the least number of its likeliest nodes that is expected to
// emit the tokens that its request needs in such a round, and `cap`. A request
// that needs more than its tree can give has no floor: nodes would be wasted on
// it. The requests that need the fewest nodes come first while the floors are
// at most `budget` together.
//
// `acceptance` corrects the drafter's probabilities; null: they are used as
// they are.
// COST: O(n log n) for n candidates of the requests that are late.
std::vector<TreeBounds> FloorsFor(const RoundView& view, double round_seconds,
                                  int budget, int cap,
                                  const Acceptance* acceptance);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_LATENCY_FLOORS_H_
