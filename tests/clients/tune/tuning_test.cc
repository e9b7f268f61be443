#include "clients/tune/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "clients/tune/acceptance_profile.h"
#include "clients/tune/tuning_report.h"
#include "common/cost_table.h"
#include "common/draft_shape.h"
#include "common/expected_acceptance.h"
#include "common/step_costs.h"
#include "nlohmann/json.hpp"

namespace bole::tune {
namespace {

using testing::HasSubstr;

constexpr DraftShape kTree;

// A round takes a millisecond up to 64 rows and twice as long from 128 on, and
// another quarter of one with a draft.
CostTable Steps() {
  const std::vector<StepCosts::Term> terms = {
      {.name = "forward",
       .axes = {{Quantity::kRows, {64, 128, 1024}}},
       .microseconds = {1000, 2000, 20000}},
      {.name = "draft",
       .axes = {{Quantity::kDraftDepth, {1, 8}}},
       .microseconds = {250, 250}}};
  return {.costs = StepCosts(terms, {}), .round_trip_seconds = 800e-6};
}

std::string Write(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

std::vector<LoadRow> Rate(const RankChances& chances,
                          const LoadOptions& options) {
  return RateLoads(Steps(), UsualSettings(kTree), chances, options);
}

TEST(TuningTest, ARateIsExpectedTokensOverTheTimeOfARoundAndItsShareOfATrip) {
  const std::vector<LoadRow> loads =
      Rate({{0.5}}, {.requests = {2}, .lease_rounds = 8});

  // 1 ms and 0.1 ms of the trip; with a chain of 3, 1.875 tokens in 1.35 ms.
  EXPECT_NEAR(*loads[0].tokens_per_second[0], 2 / 1.1e-3, 1);
  EXPECT_NEAR(*loads[0].tokens_per_second[1], 2 * 1.875 / 1.35e-3, 1);
  EXPECT_NEAR(loads[0].SpeedUp(1), 1.875 * 1.1 / 1.35, 1e-3);
}

TEST(TuningTest, TheBestSettingDependsOnLoadAndAcceptance) {
  const std::vector<Setting> settings = UsualSettings(kTree);
  const auto best = [&](const LoadRow& load) {
    return NameOf(settings[load.best]);
  };
  const LoadOptions options{.requests = {1, 16}};

  const std::vector<LoadRow> good = Rate(HalvingChances(0.8, 4), options);
  const std::vector<LoadRow> bad = Rate(HalvingChances(0.05, 4), options);

  EXPECT_EQ(best(good[0]), "tree 64");
  EXPECT_EQ(best(good[1]), "chain 3");
  EXPECT_EQ(best(bad[0]), "plain");
  EXPECT_EQ(best(bad[1]), "plain");
}

TEST(TuningTest, WhatNeedsTooManyRowsHasNoRate) {
  const std::vector<LoadRow> loads =
      Rate({{0.5}}, {.requests = {16, 17}, .max_rows = 1024});
  const size_t largest = UsualSettings(kTree).size() - 1;

  EXPECT_TRUE(loads[0].tokens_per_second[largest].has_value());
  EXPECT_FALSE(loads[1].tokens_per_second[largest].has_value());
}

TEST(TuningTest, ASmallTreeHasNoMoreNodesThanItsCandidates) {
  const std::vector<Setting> settings =
      UsualSettings({.top_k = 2, .depth = 4});  // 14 candidates.

  EXPECT_EQ(settings.back().nodes, 8);
}

TEST(TuningTest, SettingsAreNamedAsTheSchedulersFlagsAre) {
  const std::vector<Setting> settings = UsualSettings(kTree);

  EXPECT_EQ(FlagsOf(settings[0]), "--speculation off");
  EXPECT_EQ(FlagsOf(settings[3]), "--speculation chain --depth 8");
  EXPECT_EQ(FlagsOf(settings[4]),
            "--speculation tree --top-k 4 --depth 8 --nodes 8");
}

TEST(AcceptanceProfileTest, AMeanBecomesChances) {
  const auto profile = ProfileOfMean(6.9, {});

  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_NEAR(1 + ExpectedDrafts(profile->chances, kTree)[63], 6.9, 1e-6);
  EXPECT_FALSE(ProfileOfMean(0.9, {}).ok());
  EXPECT_FALSE(ProfileOfMean(9.1, {}).ok());
}

TEST(AcceptanceProfileTest, AFileHasChancesOrAMean) {
  const auto chances =
      LoadProfile(Write("a.json", R"({"accept": [[0.5, 0.25], [0.125]]})"));
  const auto mean = LoadProfile(
      Write("b.json", R"({"tree": {"top_k": 1, "depth": 3, "nodes": 4},
                          "acceptance": {"mean": 1.875}})"));

  ASSERT_TRUE(chances.ok()) << chances.status();
  EXPECT_EQ(chances->chances, (RankChances{{0.5, 0.25}, {0.125}}));
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_NEAR(mean->chances[0][0], 0.5, 1e-6);
}

TEST(AcceptanceProfileTest, WhatIsWrongIsNamed) {
  struct Case {
    std::string text;
    std::string what;
  };
  const std::vector<Case> cases = {
      {"[]", "no object"},
      {R"({"accept": []})", "accept"},
      {R"({"accept": [0.5]})", "0.5"},
      {R"({"accept": [["x"]]})", "\"x\""},
      {R"({"accept": [[-0.5]]})", "-0.5"},
      {R"({"accept": [[0.5, 0.75]]})", "0.75"},
      {"{}", "top_k"},
      {R"({"tree": {"top_k": 17, "depth": 3, "nodes": 4}})", "top_k"},
      {R"({"tree": {"top_k": 1, "depth": 3, "nodes": 5}})", "nodes"},
      {R"({"tree": {"top_k": 1, "depth": 3, "nodes": 4}})", "mean"},
      {R"({"tree": {"top_k": 1, "depth": 3, "nodes": 4},
           "acceptance": {"mean": 4.5}})",
       "4.5"}};
  for (const Case& c : cases) {
    const absl::Status status = LoadProfile(Write("c.json", c.text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.what));
    EXPECT_THAT(std::string(status.message()), HasSubstr("c.json: "));
  }
}

TuningReport Report() {
  const LoadOptions options{.requests = {1, 2, 16}, .max_rows = 512};
  return {.machine = "m on d",
          .options = options,
          .settings = UsualSettings(kTree),
          .tables = {{"good", Rate(HalvingChances(0.8, 4), options)},
                     {"bad", Rate(HalvingChances(0.05, 4), options)}}};
}

TEST(TuningReportTest, TheBestIsMarkedAndItsFlagsAreSaid) {
  const std::string text = TuningText(Report());

  EXPECT_THAT(text, HasSubstr("\n       1       909      "));
  EXPECT_THAT(text, HasSubstr("909*"));
  EXPECT_THAT(text, HasSubstr("16        requests  --speculation chain"));
  EXPECT_THAT(text, HasSubstr("1 to 16   requests  --speculation off\n"));
}

TEST(TuningReportTest, AChartHasASeriesForEachSetting) {
  const std::string svg = TuningSvg(Report());

  for (const Setting& setting : UsualSettings(kTree)) {
    EXPECT_THAT(svg, HasSubstr(">" + NameOf(setting) + "<"));
  }
}

TEST(TuningReportTest, TheJsonHasTheRatesAndTheBest) {
  const nlohmann::ordered_json json = TuningJson(Report());

  const auto& load = json["tables"][0]["loads"][2];
  EXPECT_EQ(load["requests"], 16);
  EXPECT_EQ(load["best"], "chain 3");
  EXPECT_TRUE(load["tokens_per_second"]["tree 64"].is_null());
  EXPECT_GT(load["tokens_per_second"]["plain"], 0);
}

}  // namespace
}  // namespace bole::tune
