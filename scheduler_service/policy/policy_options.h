// Which policy decides the rounds, and its parameters.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_POLICY_OPTIONS_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_POLICY_OPTIONS_H_

#include <chrono>

#include "scheduler_service/policy/speculation.h"

namespace bole {

enum class PolicyKind {
  kOff,       // Plain decoding.
  kFixed,     // A fixed number of nodes for each request.
  kEpsilon,   // The largest forest within (1 + epsilon) of plain decoding.
  kAdaServe,  // Floors from latency targets, then the likeliest nodes.
  kGoodput,   // The most expected tokens per second.
  kSlo,       // The same, among choices that keep latency targets.
};

struct PolicyOptions {
  PolicyKind kind = PolicyKind::kGoodput;
  // What kFixed does. For the other policies it bounds what is drafted:
  // nothing, chains, or chains and trees of the shape.
  Speculation speculation;
  int lease_rounds = 4;                     // At most.
  std::chrono::milliseconds max_lease{50};  // Predicted, of a lease.
  double epsilon = 0.1;
  int capacity = 256;  // kAdaServe: nodes of a forest.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_POLICY_OPTIONS_H_
