// Fits the measured times of rounds by a sum of terms.
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
  // Whether the round was a plan of its own and not one of several of a lease.
  bool is_plan = true;
};

struct FittedCosts {
  StepCosts costs;
  // The time that a plan takes beyond its rounds. 0 unless rounds of leases
  // were observed: without them it is included in the time of every round.
  double plan_microseconds = 0;
};

// The routed experts of each layer. 0: none.
struct Experts {
  int count = 0;
  int per_token = 0;

  // The expected number of experts that a forward of `rows` rows reads, if rows
  // choose independently and uniformly: count * (1 - (1 -
  // per_token / count)^rows). REQUIRES: count > 0.
  double ReadBy(double rows) const;

  friend bool operator==(const Experts&, const Experts&) = default;
};

// Fits non-negative factors of a fixed set of functions of the quantities that
// minimise the sum of the squared relative errors. A round that is far off
// counts less, since the machine may have been busy. The terms:
//   forward       the constant time of every round and the time of its rows,
//                 interpolated between the observed numbers of rows
//   rows          the extra time for each node: the head, sampling
//   requests      the extra time for each request: its state
//   experts       reading the routed experts; only real rows count, since rows
//                 that pad a forward read none
//   attention     by kv_tokens, once for a request and once for each node
//   tree          the extra time of a forest that is not plain decoding
//   draft         by depth, top_k and requests: the extend pass and the levels
//   tails         showing the drafter the tokens that it has missed
//   prefill       the extra time of a chunk, interpolated between the observed
//                 sizes
//   prefill_attention  by the tokens before a chunk, between the same sizes
//   beside        the extra time of a chunk that shares its round with a forest
// A term that no observation involves is left out.
// COST: milliseconds for some hundred observations.
FittedCosts FitCosts(std::span<const Observation> observations,
                     const std::vector<int>& row_buckets,
                     const Experts& experts = {});

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_FIT_H_
