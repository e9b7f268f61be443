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

// The routed experts of each layer. 0: none.
struct Experts {
  int count = 0;
  int per_token = 0;

  // How many of them a forward of so many rows is expected to read, if rows
  // choose theirs independently and none is preferred: count * (1 - (1 -
  // per_token / count)^rows). REQUIRES: count > 0.
  double ReadBy(double rows) const;

  friend bool operator==(const Experts&, const Experts&) = default;
};

// Non-negative factors of a fixed set of functions of the quantities, so that
// the squares of the relative errors are least; a round that is far off counts
// less, since a machine may have been busy. The terms:
//   forward       what every round takes, and its rows, between the numbers of
//                 rows that were observed
//   rows          more for each node: the head, sampling
//   requests      more for each request: its state
//   experts       the routed experts that the rows read, which are those that
//                 there are: rows that only pad a forward read none
//   attention     by kv_tokens, once for a request and once for each node
//   tree          what a forest takes that is not plain decoding
//   draft         by depth, top_k and requests: the extend pass and the levels
//   tails         what the drafter is shown because it has missed it
//   prefill       more for a chunk, between the sizes that were observed
//   prefill_attention  by the tokens before a chunk, between the same sizes
//   beside        what a chunk takes because there is a forest beside it
// A term of which nothing was observed is left out.
// COST: milliseconds for some hundred observations.
FittedCosts FitCosts(std::span<const Observation> observations,
                     const std::vector<int>& row_buckets,
                     const Experts& experts = {});

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_FIT_H_
