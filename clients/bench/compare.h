// Compares two runs: `bole bench compare A.json B.json`.
#ifndef BOLE_CLIENTS_BENCH_COMPARE_H_
#define BOLE_CLIENTS_BENCH_COMPARE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace bole::bench {

// The 95 % confidence interval of the ratio of B to A, by a percentile
// bootstrap over the requests of the two runs.
struct RatioRange {
  double low = 0;
  double high = 0;
};

struct ComparedMetric {
  std::string name;  // "ttft p99"
  double a = 0;
  double b = 0;
  bool higher_is_better = false;
  bool is_seconds = true;
  // Absent: there are no samples, or the metric is not a statistic of
  // independent requests (a rate, for example).
  std::optional<RatioRange> range = std::nullopt;

  // B / A: 1 if both are 0, infinity if only A is.
  double ratio() const;
  // By how much B is worse, as a share of A; negative if it is better.
  double worsening() const;
  // Whether B is worse by more than `share`, and the whole range, if there is
  // one, is on the worse side of 1.
  bool IsRegression(double share) const;
};

struct Comparison {
  std::vector<ComparedMetric> metrics;
  // Settings in which the runs differ: "load: 4/s against 8/s".
  std::vector<std::string> differences;
};

// Reads a report of `bole bench --out`. Errors begin with the path.
absl::StatusOr<nlohmann::json> ReadReport(const std::string& path);

// REQUIRES: both come from ReadReport().
Comparison CompareReports(const nlohmann::json& a, const nlohmann::json& b);

// Formats a table. Regressions by more than `fail_above` are marked if it is
// set.
std::string FormatComparison(const Comparison& comparison,
                             std::optional<double> fail_above);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_COMPARE_H_
