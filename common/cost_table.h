// The measured costs of rounds on one worker.
#ifndef BOLE_COMMON_COST_TABLE_H_
#define BOLE_COMMON_COST_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model_fingerprint.h"
#include "common/step_costs.h"

namespace bole {

// What a table was measured with. A table that was measured with anything else
// does not apply to a worker.
struct CostTableOf {
  std::string model = {};        // As the worker describes it: "demo".
  std::string fingerprint = {};  // FingerprintForCosts(); empty: synthetic.
  std::string device = {};       // "NVIDIA H200", "cpu, 2 threads"
  std::string build = {};        // The version of the worker.
  int ranks = 1;

  friend bool operator==(const CostTableOf&, const CostTableOf&) = default;
};

// Combines the three digests: the SHA-256 of their concatenation, or empty if
// all of them are empty.
std::string FingerprintForCosts(const ModelFingerprint& fingerprint);

// A round that was measured and not fitted.
struct HeldOutRound {
  RoundQuantities quantities = {};
  double predicted_us = 0;  // In the engine, as measured_us.
  double measured_us = 0;

  double RelativeError() const;

  friend bool operator==(const HeldOutRound&, const HeldOutRound&) = default;
};

// The time of a round as a sum of a few measured terms (Eq. 12 and Sec. V-A).
// `costs` are those of the engine for one of several rounds of a lease if the
// worker takes leases; a single round is a lease of one. `round_trip_seconds`
// is added once for every plan, whatever it contains: the trip between the
// services, and what an engine with leases does before the first round and
// after the last.
struct CostTable {
  CostTableOf of = {};
  StepCosts costs = {};
  double round_trip_seconds = 0;
  std::string measured_at = {};  // "2026-11-24T13:00:00Z"; for people.
  int num_combinations = 0;      // Kinds of rounds that were measured.
  int num_measurements = 0;      // Measurements of all of them together.
  std::vector<HeldOutRound> held_out = {};
};

// The errors of the predictions for held-out rounds, relative to what was
// measured: |predicted - measured| / measured. 0 if there are none.
struct PredictionErrors {
  double median = 0;
  double p95 = 0;
};
PredictionErrors ErrorsOf(const CostTable& table);

inline constexpr size_t kMaxCostTableBytes = 1 << 20;

// The text of a table's file, which StepCosts::Parse() can read as well:
//   {"format": 1,
//    "of": {"model": "demo", "fingerprint": "", "device": "NVIDIA H200",
//           "build": "0.2.0", "ranks": 1},
//    "measured": {"at": "...", "combinations": 80, "measurements": 400},
//    "round_trip_us": 120,
//    "row_buckets": [...], "terms": [...],   // As StepCosts has them.
//    "held_out": [{"round": {"rows": 4, ...}, "predicted_us": 812.5,
//                  "measured_us": 800}]}
// Times are rounded to hundredths of a microsecond.
std::string ToJson(const CostTable& table);

// INVALID_ARGUMENT naming what is wrong and its value: text of more than
// kMaxCostTableBytes, a format that is not known, a field that is missing or of
// another type, an invalid time, terms that StepCosts refuses.
absl::StatusOr<CostTable> ParseCostTable(std::string_view text);
// Reads a file. All errors begin with its path.
absl::StatusOr<CostTable> LoadCostTable(const std::string& path);

// FAILED_PRECONDITION, with both values of the first thing that differs, unless
// the table was measured with `of`.
absl::Status CheckMeasuredWith(const CostTable& table, const CostTableOf& of);

}  // namespace bole

#endif  // BOLE_COMMON_COST_TABLE_H_
