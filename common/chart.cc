#include "common/chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/check.h"

namespace bole {
namespace {

// In pixels. A chart has its axes inside of these margins.
constexpr double kWidth = 820;
constexpr double kHeight = 300;
// Space above the first chart, in which the title of the document stands.
constexpr double kTop = 40;
constexpr double kLeft = 70;
// Space beside the charts, in which the names of the series stand.
constexpr double kRight = 170;
constexpr double kAbove = 34;
constexpr double kBelow = 46;

// Distinct in brightness as well, for those who see few colours.
constexpr const char* kColors[] = {"#1b4f9c", "#d9652b", "#3c8d40",
                                   "#8c3a8f", "#777777", "#c9a227",
                                   "#008b8b", "#b3134f", "#5a4a1f"};

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Text(double x, double y, const char* anchor,
                 const std::string& text) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
      anchor, Escape(text));
}

std::string Line(double x1, double y1, double x2, double y2) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
      "stroke=\"#d0d0d0\"/>\n",
      x1, y1, x2, y2);
}

// From values to pixels.
class Axes {
 public:
  Axes(const Chart& chart, double top) : log_x_(chart.log_x), top_(top) {
    bool any = false;
    for (const Series& series : chart.series) {
      for (const Point& point : series.points) {
        max_y_ = std::max(max_y_, point.y);
        if (log_x_ && point.x <= 0) continue;
        min_x_ = any ? std::min(min_x_, point.x) : point.x;
        max_x_ = any ? std::max(max_x_, point.x) : point.x;
        any = true;
      }
    }
    if (!any) min_x_ = 1;
    if (!log_x_) min_x_ = 0;
    if (max_y_ <= 0) max_y_ = 1;
    if (max_x_ <= min_x_) max_x_ = log_x_ ? 10 * min_x_ : min_x_ + 1;
  }

  double X(double x) const {
    const double share = log_x_ ? std::log(std::max(x, min_x_) / min_x_) /
                                      std::log(max_x_ / min_x_)
                                : (x - min_x_) / (max_x_ - min_x_);
    return kLeft + share * (kWidth - kLeft - kRight);
  }

  double Y(double y) const { return Bottom() - y / max_y_ * PlotHeight(); }

  double Top() const { return top_ + kAbove; }
  double Bottom() const { return top_ + kHeight - kBelow; }

  std::vector<double> XTicks() const {
    constexpr int kTicks = 8;
    if (!log_x_) return RoundTicks(min_x_, max_x_, kTicks);
    std::vector<double> ticks;
    const auto last = static_cast<int>(std::floor(std::log10(max_x_)));
    for (auto exponent = static_cast<int>(std::floor(std::log10(min_x_)));
         exponent <= last; ++exponent) {
      const double decade = std::pow(10, exponent);
      for (const double factor : {1, 2, 5}) {
        const double tick = factor * decade;
        if (tick >= min_x_ && tick <= max_x_) ticks.push_back(tick);
      }
    }
    return ticks;
  }

  std::vector<double> YTicks() const {
    constexpr int kTicks = 5;
    return RoundTicks(0, max_y_, kTicks);
  }

 private:
  static double PlotHeight() { return kHeight - kAbove - kBelow; }

  const bool log_x_;
  const double top_;
  double min_x_ = 0;
  double max_x_ = 0;
  double max_y_ = 0;
};

std::string DrawGrid(const Chart& chart, const Axes& axes) {
  std::string svg;
  const double right = kWidth - kRight;
  for (const double x : axes.XTicks()) {
    svg += Line(axes.X(x), axes.Top(), axes.X(x), axes.Bottom());
    svg +=
        Text(axes.X(x), axes.Bottom() + 16, "middle", absl::StrFormat("%g", x));
  }
  for (const double y : axes.YTicks()) {
    svg += Line(kLeft, axes.Y(y), right, axes.Y(y));
    svg += Text(kLeft - 6, axes.Y(y) + 4, "end", absl::StrFormat("%g", y));
  }
  svg += Text(kLeft, axes.Top() - 12, "start",
              chart.title + " (" + chart.y_label + ")");
  svg += Text((kLeft + right) / 2, axes.Bottom() + 34, "middle", chart.x_label);
  return svg;
}

void AppendPoint(const Axes& axes, const Point& point, std::string& svg) {
  absl::StrAppendFormat(&svg, "%.1f,%.1f ", axes.X(point.x), axes.Y(point.y));
}

std::string DrawLine(const Series& series, const Axes& axes,
                     const char* color) {
  std::string svg = absl::StrFormat(
      "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"",
      color);
  for (const Point& point : series.points) AppendPoint(axes, point, svg);
  return svg + "\"/>\n";
}

// What is between `upper` and the series below it, or the axis if that is null.
std::string DrawArea(const Series& upper, const Series* lower, const Axes& axes,
                     const char* color) {
  std::string svg = absl::StrFormat("<polygon fill=\"%s\" points=\"", color);
  for (const Point& point : upper.points) AppendPoint(axes, point, svg);
  for (size_t i = upper.points.size(); i-- > 0;) {
    const double base = lower != nullptr ? lower->points[i].y : 0;
    AppendPoint(axes, {upper.points[i].x, base}, svg);
  }
  return svg + "\"/>\n";
}

// Adds to each series those before it.
Chart Stack(Chart chart) {
  for (size_t i = 1; i < chart.series.size(); ++i) {
    const std::vector<Point>& below = chart.series[i - 1].points;
    std::vector<Point>& points = chart.series[i].points;
    BOLE_CHECK(below.size() == points.size());
    for (size_t j = 0; j < points.size(); ++j) points[j].y += below[j].y;
  }
  return chart;
}

std::string DrawChart(const Chart& given, double top) {
  const Chart chart = given.stacked ? Stack(given) : given;
  const Axes axes(chart, top);
  std::string svg = DrawGrid(chart, axes);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const char* color = kColors[i % std::size(kColors)];
    const Series& series = chart.series[i];
    svg += chart.stacked
               ? DrawArea(series, i > 0 ? &chart.series[i - 1] : nullptr, axes,
                          color)
               : DrawLine(series, axes, color);
    const double y = axes.Top() + 14 + 18 * static_cast<double>(i);
    const double x = kWidth - kRight + 12;
    absl::StrAppendFormat(
        &svg,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" "
        "fill=\"%s\"/>\n",
        x, y - 9, color);
    svg += Text(x + 16, y, "start", series.name);
  }
  return svg;
}

}  // namespace

std::vector<double> RoundTicks(double low, double high, int count) {
  const double rough = (high - low) / count;
  if (rough <= 0) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> ticks;
  const double end = high + step * 1e-9;
  for (double i = std::ceil(low / step); i * step <= end; ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

std::string DrawCharts(const std::string& title,
                       std::span<const Chart> charts) {
  const double height = kTop + kHeight * static_cast<double>(charts.size());
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
      "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, height);
  svg += Text(kLeft, kTop - 12, "start", title);
  for (size_t i = 0; i < charts.size(); ++i) {
    svg += DrawChart(charts[i], kTop + kHeight * static_cast<double>(i));
  }
  return svg + "</svg>\n";
}

}  // namespace bole
