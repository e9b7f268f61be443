// What rounds cost on one worker, as it was measured.
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

// What a table was measured with. One that was measured with anything else says
// nothing of this worker.
struct CostTableOf {
  std::string model = {};        // As the worker describes it: "demo".
  std::string fingerprint = {};  // FingerprintForCosts(); empty: synthetic.
  std::string device = {};       // "NVIDIA H200", "cpu, 2 threads"
  std::string build = {};        // The version of the worker.
  int ranks = 1;

  friend bool operator==(const CostTableOf&, const CostTableOf&) = default;
};

// The three digests as one: SHA-256 of them one after the other, or empty if
// all of them are.
std::string FingerprintForCosts(const ModelFingerprint& fingerprint);

// A round that was measured and not fitted.
struct HeldOutRound {
  RoundQuantities quantities = {};
  double predicted_us = 0;  // In the engine, as measured_us.
  double measured_us = 0;

  double RelativeError() const;

  friend bool operator==(const HeldOutRound&, const HeldOutRound&) = default;
};

// Seconds of rounds as a sum of few terms, each measured (Eq. 12 and Sec. V-A).
// `costs` are those of the engine for a round among others of a lease, where
// the worker takes leases; a round alone is a lease of one. What comes on top
// once for every plan, whatever is in it, is in `round_trip_seconds`: the way
// between the services, and what an engine with leases does before the first
// round and after the last.
struct CostTable {
  CostTableOf of = {};
  StepCosts costs = {};
  double round_trip_seconds = 0;
  std::string measured_at = {};  // "2026-11-24T13:00:00Z"; for people.
  int num_combinations = 0;      // Kinds of rounds that were measured,
  int num_measurements = 0;      // and how often, all of them together.
  std::vector<HeldOutRound> held_out = {};
};

// How far off predictions were of rounds that were held out, as shares of what
// was measured: |predicted - measured| / measured. 0 if there are none.
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
// another type, a time that is none, terms that StepCosts refuses.
absl::StatusOr<CostTable> ParseCostTable(std::string_view text);
// From a file. Errors begin with its path, those of reading it included.
absl::StatusOr<CostTable> LoadCostTable(const std::string& path);

// FAILED_PRECONDITION, with both values of the first thing that differs, unless
// the table was measured with `of`.
absl::Status CheckMeasuredWith(const CostTable& table, const CostTableOf& of);

}  // namespace bole

#endif  // BOLE_COMMON_COST_TABLE_H_
