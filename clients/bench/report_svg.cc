#include "clients/bench/report_svg.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "common/chart.h"

namespace bole::bench {
namespace {

// For each x, the share of samples that do not exceed it, at 201 percentiles.
Series Cumulative(const Metric& metric) {
  constexpr int kPoints = 200;
  Series series{.name = metric.name, .points = {}};
  if (metric.distribution->count() == 0) return series;
  for (int i = 0; i <= kPoints; ++i) {
    const double percent = 100.0 * i / kPoints;
    series.points.push_back(
        {1000 * metric.distribution->Percentile(percent), percent});
  }
  return series;
}

// Sums over intervals of equal length.
class Timeline {
 public:
  Timeline(double end, double step)
      : step_(step), values_(static_cast<size_t>(end / step) + 1) {}

  void Add(double time, double amount) { values_[Index(time)] += amount; }

  // Adds 1 to every interval from the one of `from` to the one of `to`.
  void AddSpan(double from, double to) {
    for (size_t i = Index(from); i <= Index(to); ++i) values_[i] += 1;
  }

  Series ToSeries(std::string name, double scale) const {
    Series series{.name = std::move(name), .points = {}};
    for (size_t i = 0; i < values_.size(); ++i) {
      series.points.push_back(
          {static_cast<double>(i) * step_, values_[i] * scale});
    }
    return series;
  }

 private:
  size_t Index(double time) const {
    const double index = std::max(time, 0.0) / step_;
    return std::min(static_cast<size_t>(index), values_.size() - 1);
  }

  const double step_;
  std::vector<double> values_;
};

}  // namespace

std::string ReportSvg(const std::string& title, const Report& report,
                      std::span<const RequestRecord> records) {
  Chart latencies{.title = "Latencies",
                  .x_label = "milliseconds",
                  .y_label = "% of samples",
                  .log_x = true,
                  .series = {}};
  for (const Metric& metric : LatencyMetrics(report)) {
    latencies.series.push_back(Cumulative(metric));
  }

  constexpr double kIntervals = 150;
  double end = 0;
  for (const RequestRecord& record : records) end = std::max(end, record.end);
  const double step = std::max(end / kIntervals, 1e-3);
  Timeline tokens(end, step);
  Timeline open(end, step);
  Timeline streaming(end, step);
  for (const RequestRecord& record : records) {
    open.AddSpan(record.scheduled, record.end);
    for (const TokenArrival& arrival : record.arrivals) {
      tokens.Add(arrival.seconds, arrival.tokens);
    }
    if (const auto first = FirstTokenTime(record)) {
      streaming.AddSpan(*first, record.end);
    }
  }
  const Chart charts[] = {
      std::move(latencies),
      {.title = "Throughput",
       .x_label = "seconds",
       .y_label = "tokens/s",
       .series = {tokens.ToSeries("output tokens", 1 / step)}},
      {.title = "Requests",
       .x_label = "seconds",
       .y_label = "requests",
       .series = {open.ToSeries("arrived, not ended", 1),
                  streaming.ToSeries("streaming", 1)}}};
  return DrawCharts(title, charts);
}

}  // namespace bole::bench
