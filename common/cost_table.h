// What rounds cost on one worker, as it was measured.
#ifndef BOLE_COMMON_COST_TABLE_H_
#define BOLE_COMMON_COST_TABLE_H_

#include <string>

#include "common/step_costs.h"

namespace bole {

// What a table was measured with. One that was measured with anything else says
// nothing of this worker.
struct CostTableOf {
  std::string model;        // As the worker describes it: "demo".
  std::string fingerprint;  // Of its files; empty for a synthetic model.
  std::string device;       // "NVIDIA H200", "cpu, 2 threads"
  std::string build;        // The version of the worker.
  int ranks = 1;

  friend bool operator==(const CostTableOf&, const CostTableOf&) = default;
};

// Seconds of rounds as a sum of few terms, each measured (Eq. 12 and Sec. V-A).
// `costs` are those of the engine; what a round costs on its way between the
// services comes on top, once for every plan.
struct CostTable {
  CostTableOf of;
  StepCosts costs;
  double round_trip_seconds = 0;
};

}  // namespace bole

#endif  // BOLE_COMMON_COST_TABLE_H_
