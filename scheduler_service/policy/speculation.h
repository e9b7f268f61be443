// How much the scheduler speculates.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_SPECULATION_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_SPECULATION_H_

#include <climits>

#include "common/draft_shape.h"

namespace bole {

enum class SpeculationMode { kOff, kChain, kTree };

struct Speculation {
  SpeculationMode mode = SpeculationMode::kTree;
  DraftShape shape;  // A chain uses only its depth.
  // Nodes verified per request and round, the root included.
  int nodes = kDefaultTreeNodes;
};

// Bounds on which drafts of one request are verified, even if the scheduler
// allows more. kOff verifies none of them, kChain the likeliest at every level,
// kTree all.
struct SpeculationOverride {
  SpeculationMode mode = SpeculationMode::kTree;
  int max_nodes = INT_MAX;  // The root included.
  int max_depth = INT_MAX;  // Levels below the root.

  friend bool operator==(const SpeculationOverride&,
                         const SpeculationOverride&) = default;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_SPECULATION_H_
