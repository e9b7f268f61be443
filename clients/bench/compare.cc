#include "clients/bench/compare.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/bench/records.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using nlohmann::json;

constexpr const char* kStatistics[] = {"mean", "p50", "p99"};

// The same statistic as in the report (nearest rank). Reorders `samples`.
double Statistic(const std::string& name, std::vector<double>& samples) {
  const double count = static_cast<double>(samples.size());
  if (name == "mean") {
    double sum = 0;
    for (const double sample : samples) sum += sample;
    return sum / count;
  }
  const double percent = name == "p50" ? 50 : 99;
  const double rank = std::max(std::ceil(percent * count / 100), 1.0);
  const auto nth = samples.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
  std::nth_element(samples.begin(), nth, samples.end());
  return *nth;
}

std::vector<double> SamplesOf(const json& report, const std::string& latency) {
  std::vector<double> samples;
  for (const json& request : report["requests"]) {
    const auto found = request.find(latency);
    if (found != request.end() && found->is_number()) {
      samples.push_back(found->get<double>());
    }
  }
  return samples;
}

std::vector<double> Resample(const std::vector<double>& samples,
                             std::mt19937_64& random) {
  std::uniform_int_distribution<size_t> pick(0, samples.size() - 1);
  std::vector<double> drawn(samples.size());
  for (double& sample : drawn) sample = samples[pick(random)];
  return drawn;
}

std::optional<RatioRange> Bootstrap(const std::string& statistic,
                                    const std::vector<double>& a,
                                    const std::vector<double>& b) {
  constexpr int kRounds = 400;
  if (a.empty() || b.empty()) return std::nullopt;
  std::mt19937_64 random(0);
  std::vector<double> ratios;
  for (int i = 0; i < kRounds; ++i) {
    std::vector<double> drawn_a = Resample(a, random);
    std::vector<double> drawn_b = Resample(b, random);
    const double base = Statistic(statistic, drawn_a);
    if (base > 0) ratios.push_back(Statistic(statistic, drawn_b) / base);
  }
  if (ratios.empty()) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  const size_t tail = ratios.size() / 40;  // 2.5 %
  return RatioRange{.low = ratios[tail],
                    .high = ratios[ratios.size() - 1 - tail]};
}

// A number of a report that a program of ours wrote; 0 if it is missing.
double NumberAt(const json& report, const char* group, const char* name) {
  const auto found = report.find(group);
  if (found == report.end()) return 0;
  const auto number = found->find(name);
  const bool is_number = number != found->end() && number->is_number();
  return is_number ? number->get<double>() : 0;
}

void AddRates(const json& a, const json& b, Comparison& comparison) {
  constexpr const char* kRates[] = {
      "requests_per_second", "good_requests_per_second", "attainment",
      "output_tokens_per_second", "mean_accepted_tokens"};
  for (const char* rate : kRates) {
    comparison.metrics.push_back({.name = rate,
                                  .a = NumberAt(a, "rates", rate),
                                  .b = NumberAt(b, "rates", rate),
                                  .higher_is_better = true,
                                  .is_seconds = false,
                                  .range = std::nullopt});
  }
}

void AddLatencies(const json& a, const json& b, Comparison& comparison) {
  for (const char* latency : {"ttft", "tpot", "itl", "e2e"}) {
    const std::vector<double> samples_a = SamplesOf(a, latency);
    const std::vector<double> samples_b = SamplesOf(b, latency);
    for (const char* statistic : kStatistics) {
      comparison.metrics.push_back(
          {.name = absl::StrCat(latency, " ", statistic),
           .a = NumberAt(a["latencies"], latency, statistic),
           .b = NumberAt(b["latencies"], latency, statistic),
           .higher_is_better = false,
           .is_seconds = true,
           .range = Bootstrap(statistic, samples_a, samples_b)});
    }
  }
}

}  // namespace

double ComparedMetric::ratio() const {
  if (a == 0) {
    return b == 0 ? 1 : std::numeric_limits<double>::infinity();
  }
  return b / a;
}

double ComparedMetric::worsening() const {
  return higher_is_better ? 1 - ratio() : ratio() - 1;
}

bool ComparedMetric::IsRegression(double share) const {
  if (!(worsening() > share)) return false;
  if (!range) return true;
  return higher_is_better ? range->high < 1 : range->low > 1;
}

absl::StatusOr<json> ReadReport(const std::string& path) {
  constexpr int kMaxDepth = 16;
  BOLE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrStdin(path));
  const absl::StatusOr<json> report = ParseJson(text, kMaxDepth);
  constexpr const char* kParts[] = {"run", "rates", "latencies"};
  if (!report.ok() || !report->is_object() ||
      report->value("bole_bench", json()) != 1 ||
      !(*report).value("requests", json()).is_array() ||
      !std::all_of(std::begin(kParts), std::end(kParts), [&](const char* part) {
        return report->value(part, json()).is_object();
      })) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is no report; `bole bench --out FILE` writes one"));
  }
  return *report;
}

Comparison CompareReports(const json& a, const json& b) {
  Comparison comparison;
  for (const auto& [name, value] : a["run"].items()) {
    const json other = b["run"].value(name, json());
    if (value == other) continue;
    comparison.differences.push_back(
        absl::StrCat(name, ": ", value.dump(), " against ", other.dump()));
  }
  AddRates(a, b, comparison);
  AddLatencies(a, b, comparison);
  return comparison;
}

std::string FormatComparison(const Comparison& comparison,
                             std::optional<double> fail_above) {
  std::string text;
  for (const std::string& difference : comparison.differences) {
    absl::StrAppend(&text, "not the same run, ", difference, "\n");
  }
  absl::StrAppendFormat(&text, "%-26s%12s%12s%9s  %s\n", "", "A", "B", "B / A",
                        "95 % of B / A");
  for (const ComparedMetric& metric : comparison.metrics) {
    const double scale = metric.is_seconds ? 1000 : 1;
    const std::string name =
        metric.is_seconds ? metric.name + ", ms" : metric.name;
    absl::StrAppendFormat(&text, "%-26s%12.2f%12.2f%9.3f", name,
                          scale * metric.a, scale * metric.b, metric.ratio());
    if (metric.range) {
      absl::StrAppendFormat(&text, "  %.3f to %.3f", metric.range->low,
                            metric.range->high);
    }
    if (fail_above && metric.IsRegression(*fail_above)) text += "  worse";
    text += "\n";
  }
  return text;
}

}  // namespace bole::bench
