#include "common/chart.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

namespace bole {
namespace {

TEST(ChartTest, TicksAreRoundAndWithinTheRange) {
  EXPECT_EQ(RoundTicks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(RoundTicks(0, 99, 5), (std::vector<double>{0, 20, 40, 60, 80}));
  EXPECT_EQ(RoundTicks(12, 41, 3), (std::vector<double>{20, 30, 40}));
  EXPECT_EQ(RoundTicks(3, 3, 5), (std::vector<double>{3}));
}

// The areas of a chart whose values are 1 and 3 in both of two places: the
// first up to a quarter of the height, the second from there to the top.
TEST(ChartTest, StackedSeriesAreAreasOnTopOfEachOther) {
  const Chart chart{.title = "t",
                    .x_label = "x",
                    .y_label = "y",
                    .stacked = true,
                    .series = {{.name = "a", .points = {{0, 1}, {1, 1}}},
                               {.name = "b", .points = {{0, 3}, {1, 3}}}}};
  const std::string svg = DrawCharts("title", std::span(&chart, 1));
  EXPECT_EQ(svg.find("<polyline"), svg.npos);
  // A plot of 220 pixels from y = 74 to 294, and of 580 from x = 70 to 650.
  EXPECT_NE(svg.find("points=\"70.0,239.0 650.0,239.0 650.0,294.0 70.0,294.0 "),
            svg.npos)
      << svg;
  EXPECT_NE(svg.find("points=\"70.0,74.0 650.0,74.0 650.0,239.0 70.0,239.0 "),
            svg.npos)
      << svg;
}

}  // namespace
}  // namespace bole
