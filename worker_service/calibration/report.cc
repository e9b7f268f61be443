#include "worker_service/calibration/report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/chart.h"
#include "common/draft_shape.h"
#include "common/step_costs.h"

namespace bole {
namespace {

double Get(const RoundQuantities& quantities, Quantity quantity) {
  return quantities[static_cast<size_t>(quantity)];
}
void Set(RoundQuantities& quantities, Quantity quantity, double value) {
  quantities[static_cast<size_t>(quantity)] = value;
}

double Milliseconds(const CostTable& table, const RoundQuantities& quantities) {
  return std::chrono::duration<double, std::milli>(
             table.costs.TimeOf(quantities))
      .count();
}

std::string LineOf(const HeldOutRound& round) {
  const RoundQuantities& of = round.quantities;
  return absl::StrFormat(
      "%8g %6g %9g %6g %10g %3gx%-2g %5g %9.3f %9.3f %7.1f%%\n",
      Get(of, Quantity::kRequests), Get(of, Quantity::kRows),
      Get(of, Quantity::kKvTokens), Get(of, Quantity::kPrefillTokens),
      Get(of, Quantity::kPrefillKvTokens), Get(of, Quantity::kDraftTopK),
      Get(of, Quantity::kDraftDepth), Get(of, Quantity::kTailTokens),
      round.measured_us / 1e3, round.predicted_us / 1e3,
      100 * (round.predicted_us - round.measured_us) /
          std::max(round.measured_us, 1e-9));
}

// The points of all axes of `quantity`, without 0.
std::vector<double> PointsOf(const CostTable& table, Quantity quantity) {
  std::set<double> points;
  for (const StepCosts::Term& term : table.costs.terms()) {
    for (const StepCosts::Axis& axis : term.axes) {
      if (axis.quantity != quantity) continue;
      points.insert(axis.points.begin(), axis.points.end());
    }
  }
  points.erase(0);
  return {points.begin(), points.end()};
}

// A forest of trees of equal size, with 500 tokens committed for each.
RoundQuantities ForestOf(double rows, double requests) {
  constexpr double kCommitted = 500;
  RoundQuantities quantities{};
  Set(quantities, Quantity::kRows, rows);
  Set(quantities, Quantity::kForwardRows, rows);
  Set(quantities, Quantity::kRequests, requests);
  Set(quantities, Quantity::kKvTokens, kCommitted * requests);
  Set(quantities, Quantity::kDraftRows, rows - requests);
  return quantities;
}

Chart ForwardChart(const CostTable& table) {
  Chart chart{.title = "A round without a draft",
              .x_label = "rows of the forest",
              .y_label = "ms",
              .log_x = true,
              .series = {}};
  const std::vector<double> requests = PointsOf(table, Quantity::kRequests);
  std::vector<double> rows = PointsOf(table, Quantity::kForwardRows);
  std::erase_if(rows, [most = PointsOf(table, Quantity::kRows)](double of) {
    return !most.empty() && of > most.back();
  });
  // Plots at most five series, evenly spread over the numbers of requests.
  const size_t step = (requests.size() + 4) / 5;
  for (size_t i = 0; i < requests.size(); i += std::max<size_t>(step, 1)) {
    Series series{.name = absl::StrFormat("%g requests", requests[i]),
                  .points = {}};
    for (const double count : rows) {
      if (count < requests[i]) continue;
      series.points.push_back(
          {count, Milliseconds(table, ForestOf(count, requests[i]))});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart DraftChart(const CostTable& table) {
  Chart chart{.title = "A draft",
              .x_label = "requests",
              .y_label = "ms",
              .log_x = true,
              .series = {}};
  for (const DraftShape shape : {DraftShape{1, 3}, DraftShape{1, 8},
                                 DraftShape{4, 4}, DraftShape{4, 8}}) {
    Series series{
        .name = absl::StrFormat("top %d, depth %d", shape.top_k, shape.depth),
        .points = {}};
    for (const double requests : PointsOf(table, Quantity::kRequests)) {
      const RoundQuantities without = ForestOf(requests, requests);
      RoundQuantities with = without;
      Set(with, Quantity::kDraftTopK, shape.top_k);
      Set(with, Quantity::kDraftDepth, shape.depth);
      series.points.push_back(
          {requests, Milliseconds(table, with) - Milliseconds(table, without)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::string ReportOf(const CostTable& table) {
  std::string text = absl::StrFormat(
      "%s on %s: %d kinds of rounds, %d measurements; %.2f ms for each plan "
      "besides its rounds\n",
      table.of.model, table.of.device, table.num_combinations,
      table.num_measurements, table.round_trip_seconds * 1e3);
  if (table.held_out.empty()) return text;
  absl::StrAppendFormat(&text,
                        "rounds that were held out:\n%8s %6s %9s %6s %10s "
                        "%6s %5s %9s %9s %8s\n",
                        "requests", "rows", "kv tokens", "chunk", "chunk's kv",
                        "draft", "tails", "ms", "predicted", "error");
  for (const HeldOutRound& round : table.held_out) text += LineOf(round);
  const PredictionErrors errors = ErrorsOf(table);
  absl::StrAppendFormat(&text,
                        "errors: median %.1f%%, 95th percentile %.1f%%\n",
                        100 * errors.median, 100 * errors.p95);
  return text;
}

std::string ChartsOf(const CostTable& table) {
  const Chart charts[] = {ForwardChart(table), DraftChart(table)};
  return DrawCharts(
      absl::StrFormat("%s on %s, fitted", table.of.model, table.of.device),
      charts);
}

}  // namespace bole
