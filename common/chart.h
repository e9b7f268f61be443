// Charts of lines and of stacked areas, as SVG.
#ifndef BOLE_COMMON_CHART_H_
#define BOLE_COMMON_CHART_H_

#include <span>
#include <string>
#include <vector>

namespace bole {

struct Point {
  double x = 0;
  double y = 0;
};

struct Series {
  std::string name;
  std::vector<Point> points;  // By x.
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // Points with x <= 0 are drawn at the left edge.
  // Each series is an area on top of those before it. REQUIRES: all series have
  // the same x.
  bool stacked = false;
  std::vector<Series> series;
};

// One SVG document with the charts below each other, each from 0 up. Texts are
// escaped.
std::string DrawCharts(const std::string& title, std::span<const Chart> charts);

// About `count` round numbers (1, 2 or 5 times a power of ten) from `low` to
// `high`. REQUIRES: low <= high, count > 0.
std::vector<double> RoundTicks(double low, double high, int count);

}  // namespace bole

#endif  // BOLE_COMMON_CHART_H_
