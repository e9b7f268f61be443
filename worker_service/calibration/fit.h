// From measured rounds to a sum of terms.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_FIT_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_FIT_H_

#include <span>
#include <vector>

#include "common/step_costs.h"

namespace bole {

// The median of some measurements of one kind of round.
struct Observation {
  RoundQuantities quantities = {};
  double microseconds = 0;  // In the engine; above 0.
  // The round is a plan of its own, and not one among others of a lease.
  bool is_plan = true;
};

struct FittedCosts {
  StepCosts costs;
  // What a plan takes beyond its rounds. 0 unless rounds of leases were
  // observed: without them it is part of every round.
  double plan_microseconds = 0;
};

// Non-negative factors of a fixed set of functions of the quantities, so that
// the squares of the relative errors are least; a round that is far off counts
// less, since a machine may have been busy. The terms:
//   forward       what every round takes, and its rows, between the numbers of
//                 rows that were observed
//   rows          more for each node: the head, sampling
//   requests      more for each request: its state
//   attention     by kv_tokens, once for a request and once for each node
//   tree          what a forest takes that is not plain decoding
//   draft         by depth, top_k and requests: the extend pass and the levels
//   prefill       more for a chunk, between the sizes that were observed
//   prefill_attention  by the tokens before a chunk
//   beside        what a chunk takes because there is a forest beside it
// A term of which nothing was observed is left out.
// COST: milliseconds for some hundred observations.
FittedCosts FitCosts(std::span<const Observation> observations,
                     const std::vector<int>& row_buckets);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_FIT_H_
