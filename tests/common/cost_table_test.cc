#include "common/cost_table.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model_fingerprint.h"
#include "common/step_costs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

RoundQuantities Round(double rows, double requests) {
  RoundQuantities quantities{};
  quantities[static_cast<size_t>(Quantity::kRows)] = rows;
  quantities[static_cast<size_t>(Quantity::kForwardRows)] = rows;
  quantities[static_cast<size_t>(Quantity::kRequests)] = requests;
  return quantities;
}

CostTable Table() {
  const std::vector<StepCosts::Term> terms = {
      {.name = "forward",
       .axes = {{Quantity::kForwardRows, {1, 64}},
                {Quantity::kRequests, {1, 2, 4}}},
       .microseconds = {10.5, 11, 12, 20, 21, 22.25}}};
  return {.of = {.model = "demo",
                 .fingerprint = "f00d",
                 .device = "cpu, 2 threads",
                 .build = "0.2.0"},
          .costs = StepCosts(terms, {1, 2, 4, 64}),
          .round_trip_seconds = 120e-6,
          .measured_at = "2026-11-24T13:00:00Z",
          .num_combinations = 80,
          .num_measurements = 400,
          .held_out = {{Round(64, 2), 90, 100}, {Round(2, 2), 11, 10}}};
}

TEST(CostTableTest, IsReadAsItWasWritten) {
  const CostTable table = Table();

  const absl::StatusOr<CostTable> read = ParseCostTable(ToJson(table));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->of, table.of);
  EXPECT_DOUBLE_EQ(read->round_trip_seconds, table.round_trip_seconds);
  EXPECT_EQ(read->measured_at, table.measured_at);
  EXPECT_EQ(read->num_combinations, 80);
  EXPECT_EQ(read->num_measurements, 400);
  EXPECT_EQ(read->held_out, table.held_out);
  for (const double rows : {1, 3, 40, 200}) {
    EXPECT_EQ(read->costs.TimeOf(Round(rows, 3)),
              table.costs.TimeOf(Round(rows, 3)))
        << rows;
  }
  EXPECT_EQ(ToJson(*read), ToJson(table));
}

TEST(CostTableTest, ItsFileIsOneOfStepCosts) {
  const absl::StatusOr<StepCosts> costs = StepCosts::Parse(ToJson(Table()));

  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->TimeOf(Round(64, 1)).count(), 20'000);
}

TEST(CostTableTest, RowsCountAsTheirBucket) {
  const StepCosts costs = Table().costs;

  EXPECT_EQ(costs.TimeOf(Round(5, 1)), costs.TimeOf(Round(64, 1)));
  EXPECT_LT(costs.TimeOf(Round(4, 1)), costs.TimeOf(Round(5, 1)));
  EXPECT_GT(costs.TimeOf(Round(65, 1)), costs.TimeOf(Round(64, 1)));
}

TEST(CostTableTest, ErrorsAreSharesOfWhatWasMeasured) {
  CostTable table = Table();
  table.held_out.push_back({Round(1, 1), 150, 100});

  EXPECT_DOUBLE_EQ(ErrorsOf(table).median, 0.1);
  EXPECT_DOUBLE_EQ(ErrorsOf(table).p95, 0.5);
  EXPECT_EQ(ErrorsOf(CostTable()).p95, 0);
}

TEST(CostTableTest, ErrorsNameWhatIsWrong) {
  const std::string good = ToJson(Table());
  const std::vector<std::pair<std::string, std::string>> spoiled = {
      {R"("format": 1)", R"("format": 2)"},
      {R"("model":"demo")", R"("model":7)"},
      {R"("ranks":1)", R"("ranks":0)"},
      {R"("round_trip_us": 120.0)", R"("round_trip_us": -1)"},
      {R"("row_buckets": [1,2,4,64])", R"("row_buckets": [1,2,2])"},
      {R"("forward_rows",[1.0,64.0])", R"("forward_rows",[64,1])"},
      {R"([10.5,11.0,12.0])", R"([10.5,11.0])"},
      {R"("rows":64.0)", R"("rowz":64.0)"},
      {R"("measured_us":100.0)", R"("measured_us":"x")"}};
  const std::vector<std::string> wanted = {"format is 2",
                                           "model is 7",
                                           "ranks is 0",
                                           "round_trip_us is -1",
                                           "row_buckets has 2",
                                           "point 1 of \"forward_rows\"",
                                           "microseconds has 2 entries",
                                           "rowz is 64.0",
                                           "measured_us is \"x\""};
  for (size_t i = 0; i < spoiled.size(); ++i) {
    std::string text = good;
    const size_t place = text.find(spoiled[i].first);
    ASSERT_NE(place, std::string::npos) << spoiled[i].first << " in " << good;
    text.replace(place, spoiled[i].first.size(), spoiled[i].second);

    const absl::Status status = ParseCostTable(text).status();

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(wanted[i]));
  }
}

TEST(CostTableTest, ErrorsOfAFileBeginWithItsPath) {
  const std::string path = ::testing::TempDir() + "/costs.json";
  std::ofstream(path) << "{}";

  EXPECT_THAT(std::string(LoadCostTable(path).status().message()),
              StartsWith(path + ": format is null"));
  std::remove(path.c_str());
  EXPECT_EQ(LoadCostTable(path).status().code(), absl::StatusCode::kNotFound);
}

TEST(CostTableTest, WhatItWasMeasuredWithHasToBeTheSame) {
  const CostTable table = Table();
  EXPECT_EQ(CheckMeasuredWith(table, table.of), absl::OkStatus());
  const auto message_of = [&](auto change) {
    CostTableOf of = table.of;
    change(of);
    const absl::Status status = CheckMeasuredWith(table, of);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };

  EXPECT_THAT(message_of([](CostTableOf& of) { of.device = "NVIDIA H200"; }),
              HasSubstr("device 'cpu, 2 threads', and this worker has 'NVIDIA "
                        "H200'"));
  EXPECT_THAT(message_of([](CostTableOf& of) { of.model = "9B"; }),
              HasSubstr("model 'demo', and this worker has '9B'"));
  EXPECT_THAT(message_of([](CostTableOf& of) { of.fingerprint = ""; }),
              HasSubstr("fingerprint 'f00d', and this worker has ''"));
  EXPECT_THAT(message_of([](CostTableOf& of) { of.build = "9"; }),
              HasSubstr("build '0.2.0', and this worker has '9'"));
  EXPECT_THAT(message_of([](CostTableOf& of) { of.ranks = 2; }),
              HasSubstr("ranks '1', and this worker has '2'"));
}

TEST(CostTableTest, TheFingerprintIsOfAllFiles) {
  EXPECT_EQ(FingerprintForCosts({}), "");
  EXPECT_NE(FingerprintForCosts({.config = "a"}), "");
  EXPECT_NE(FingerprintForCosts({.config = "a", .weights = "b"}),
            FingerprintForCosts({.config = "a", .weights = "c"}));
}

}  // namespace
}  // namespace bole
