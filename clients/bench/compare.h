// Two runs beside each other: `bole bench compare A.json B.json`.
#ifndef BOLE_CLIENTS_BENCH_COMPARE_H_
#define BOLE_CLIENTS_BENCH_COMPARE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace bole::bench {

// A ratio of B to A, and where it lies with 95 % probability, as far as the
// requests of the two runs tell (percentile bootstrap over requests).
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
  // Absent: it is no statistic of independent requests, as a rate.
  std::optional<RatioRange> range = std::nullopt;

  // B over A. 1 if both are 0; infinity if A alone is.
  double ratio() const;
  // By how much B is worse, as a share of A; negative if it is better.
  double worsening() const;
  // Whether B is worse by more than `share`, and the range is on the worse side
  // of 1 as a whole.
  bool IsRegression(double share) const;
};

struct Comparison {
  std::vector<ComparedMetric> metrics;
  // What the runs do not have in common: "load: 4/s against 8/s".
  std::vector<std::string> differences;
};

// A report of `bole bench --out`. Errors begin with the path.
absl::StatusOr<nlohmann::json> ReadReport(const std::string& path);

// REQUIRES: both come from ReadReport().
Comparison CompareReports(const nlohmann::json& a, const nlohmann::json& b);

// A table. Regressions by more than `fail_above`, if there is one, are marked.
std::string FormatComparison(const Comparison& comparison,
                             std::optional<double> fail_above);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_COMPARE_H_
