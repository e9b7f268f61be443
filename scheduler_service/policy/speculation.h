// How much the scheduler speculates.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_SPECULATION_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_SPECULATION_H_

#include "common/draft_shape.h"

namespace bole {

enum class SpeculationMode { kOff, kChain, kTree };

struct Speculation {
  SpeculationMode mode = SpeculationMode::kTree;
  DraftShape shape;  // A chain has its depth alone.
  // Verified per request and round, the root included.
  int nodes = kDefaultTreeNodes;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_SPECULATION_H_
