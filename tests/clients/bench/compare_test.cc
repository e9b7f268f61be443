#include "clients/bench/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "clients/bench/report_json.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A run of 200 requests whose times to the first token are even around
// `center`, and which take one second each.
nlohmann::json RunOf(double center, const std::string& load = "4/s") {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 200; ++i) {
    RequestRecord record;
    record.scheduled = i;
    record.sent = i;
    record.arrivals = {{i + center * (0.8 + 0.002 * i), 1}, {i + 0.9, 4}};
    record.end = i + 1;
    records.push_back(record);
  }
  return nlohmann::json::parse(
      ReportJson({{"load", load}}, MakeReport(records, {}, 0), {}, records)
          .dump());
}

const ComparedMetric& Find(const Comparison& comparison,
                           const std::string& name) {
  for (const ComparedMetric& metric : comparison.metrics) {
    if (metric.name == name) return metric;
  }
  ADD_FAILURE() << "no metric " << name;
  return comparison.metrics.front();
}

std::string Regressions(const Comparison& comparison, double share) {
  std::string names;
  for (const ComparedMetric& metric : comparison.metrics) {
    if (metric.IsRegression(share)) names += metric.name + ";";
  }
  return names;
}

TEST(CompareTest, ARunIsNoWorseThanItself) {
  const Comparison comparison = CompareReports(RunOf(0.1), RunOf(0.1));

  EXPECT_EQ(Regressions(comparison, 0), "");
  EXPECT_THAT(comparison.differences, ElementsAre());
  const ComparedMetric& ttft = Find(comparison, "ttft mean");
  EXPECT_EQ(ttft.ratio(), 1);
  EXPECT_LT(ttft.range->low, 1);
  EXPECT_GT(ttft.range->high, 1);
}

TEST(CompareTest, ALongerWaitIsARegressionInItsDirectionAlone) {
  const Comparison slower = CompareReports(RunOf(0.1), RunOf(0.15));
  const Comparison faster = CompareReports(RunOf(0.15), RunOf(0.1));

  EXPECT_EQ(Regressions(slower, 0.2), "ttft mean;ttft p50;ttft p99;");
  EXPECT_EQ(Regressions(slower, 0.6), "");
  EXPECT_EQ(Regressions(faster, 0.2), "");
  const ComparedMetric& ttft = Find(slower, "ttft p50");
  EXPECT_NEAR(ttft.ratio(), 1.5, 1e-9);
  EXPECT_LT(ttft.range->low, 1.5);
  EXPECT_GT(ttft.range->high, 1.5);
}

TEST(CompareTest, ADifferenceWithinTheNoiseIsNoRegression) {
  ComparedMetric metric{.name = "ttft mean", .a = 1, .b = 1.1};
  metric.range = {.low = 0.9, .high = 1.3};
  EXPECT_FALSE(metric.IsRegression(0.05));

  metric.range = {.low = 1.01, .high = 1.3};
  EXPECT_TRUE(metric.IsRegression(0.05));
}

TEST(CompareTest, LessThroughputIsARegression) {
  const ComparedMetric metric{.name = "output_tokens_per_second",
                              .a = 100,
                              .b = 90,
                              .higher_is_better = true};

  EXPECT_TRUE(metric.IsRegression(0.05));
  EXPECT_FALSE(metric.IsRegression(0.11));
}

TEST(CompareTest, RunsOfDifferentLoadsAreToldApart) {
  const Comparison comparison =
      CompareReports(RunOf(0.1, "4/s"), RunOf(0.1, "8/s"));

  EXPECT_THAT(comparison.differences,
              ElementsAre("load: \"4/s\" against \"8/s\""));
  EXPECT_THAT(FormatComparison(comparison, 0.05), HasSubstr("not the same"));
}

TEST(CompareTest, WhatIsNoReportIsRefused) {
  const std::string path = testing::TempDir() + "/report.json";
  for (const char* text : {"[]", "{}", "{\"bole_bench\": 2}", "not JSON"}) {
    SCOPED_TRACE(text);
    std::ofstream(path) << text;
    EXPECT_THAT(ReadReport(path).status().ToString(),
                HasSubstr("is no report"));
  }
  std::ofstream(path) << RunOf(0.1).dump();
  EXPECT_TRUE(ReadReport(path).ok());
}

}  // namespace
}  // namespace bole::bench
