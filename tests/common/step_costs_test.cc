#include "common/step_costs.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::microseconds;

// So many sequences of 1000 committed tokens, with two nodes each.
StepPlan Forest(int requests) {
  StepPlan plan;
  plan.sequences.resize(requests);
  for (SequencePlan& sequence : plan.sequences) sequence.committed = 1000;
  const NodeList list{.token = {1, 2}, .parent = {kNoParent, 0}};
  plan.forest = *BuildForest(std::vector<NodeList>(requests, list));
  return plan;
}

StepPlan Prefill(int tokens, int committed) {
  StepPlan plan;
  plan.prefills.resize(1);
  plan.prefills[0].sequence.committed = committed;
  plan.prefills[0].tokens.resize(tokens);
  return plan;
}

StepCosts Parsed(const std::string& terms) {
  const auto costs = StepCosts::Parse("{\"terms\": [" + terms + "]}");
  EXPECT_TRUE(costs.ok()) << costs.status();
  return costs.value_or(StepCosts());
}

TEST(QuantitiesOfTest, CountsWhatRuns) {
  StepPlan plan = Forest(3);
  plan.prefills = Prefill(7, 64).prefills;
  plan.draft = DraftShape{.top_k = 4, .depth = 8};
  plan.sequences[0].draft_tail = {7, 8, 9};
  plan.sequences[2].draft_tail = {7};

  EXPECT_EQ(QuantitiesOf(plan),
            (RoundQuantities{6, 3, 3000, 7, 64, 4, 8, 13, 3, 4}));
}

TEST(QuantitiesOfTest, SequencesWithoutNodesDoNotRun) {
  StepPlan plan = Forest(2);
  plan.forest = *BuildForest(
      std::vector<NodeList>{{.token = {1}, .parent = {kNoParent}}, {}});

  EXPECT_EQ(QuantitiesOf(plan),
            (RoundQuantities{1, 1, 1000, 0, 0, 0, 0, 1, 0}));
}

TEST(StepCostsTest, WithoutATableRoundsTakeNoTime) {
  EXPECT_EQ(StepCosts().TimeOf(Forest(3)).count(), 0);
}

TEST(StepCostsTest, TimesAreInterpolatedAndGoOnBeyondTheLastPoint) {
  const StepCosts costs = Parsed(
      R"({"axes": [["rows", [4, 8, 16]]], "microseconds": [100, 200, 600]})");

  EXPECT_EQ(costs.TimeOf(Forest(1)), microseconds(100));
  EXPECT_EQ(costs.TimeOf(Forest(2)), microseconds(100));
  EXPECT_EQ(costs.TimeOf(Forest(3)), microseconds(150));
  EXPECT_EQ(costs.TimeOf(Forest(4)), microseconds(200));
  EXPECT_EQ(costs.TimeOf(Forest(6)), microseconds(400));
  EXPECT_EQ(costs.TimeOf(Forest(8)), microseconds(600));
  EXPECT_EQ(costs.TimeOf(Forest(10)), microseconds(800));
}

TEST(StepCostsTest, ExactRowsAreNotPadded) {
  const StepCosts costs = *StepCosts::Parse(
      R"({"row_buckets": [8, 16], "terms": [
          {"axes": [["forward_rows", [0, 100]]], "microseconds": [0, 1000]},
          {"axes": [["exact_rows", [0, 100]]], "microseconds": [0, 100]}]})");
  StepPlan both = Forest(2);
  both.prefills = Prefill(5, 0).prefills;

  EXPECT_EQ(costs.TimeOf(Forest(3)), microseconds(80 + 6));
  EXPECT_EQ(costs.TimeOf(both), microseconds(160 + 9));
  // Whatever it was before.
  RoundQuantities quantities = QuantitiesOf(both);
  quantities[static_cast<size_t>(Quantity::kExactRows)] = 70;
  EXPECT_EQ(costs.TimeOf(quantities), microseconds(160 + 9));
}

TEST(StepCostsTest, AxesAreInterpolatedTogether) {
  const StepCosts costs = Parsed(
      R"({"axes": [["rows", [2, 6]], ["kv_tokens", [0, 4000]]],
          "microseconds": [[0, 400], [800, 2000]]})");

  // 4 rows lie half-way, 2000 tokens too.
  EXPECT_EQ(costs.TimeOf(Forest(2)), microseconds(800));
  // 10 rows lie beyond the last point and go on; 5000 tokens stay at theirs.
  EXPECT_EQ(costs.TimeOf(Forest(5)), microseconds(3600));
}

TEST(StepCostsTest, TermsAddUpWhereTheirFirstQuantityIsThere) {
  const StepCosts costs = Parsed(
      R"({"axes": [["rows", [1]]], "microseconds": [70]},
         {"axes": [["prefill_tokens", [0, 100]], ["prefill_kv_tokens", [0]]],
          "microseconds": [[0], [1000]]},
         {"axes": [["draft_depth", [1]]], "microseconds": [5]})");

  EXPECT_EQ(costs.TimeOf(Forest(2)), microseconds(70));
  EXPECT_EQ(costs.TimeOf(Prefill(50, 10)), microseconds(500));
  StepPlan both = Forest(2);
  both.prefills = Prefill(50, 0).prefills;
  both.draft = DraftShape{};
  EXPECT_EQ(costs.TimeOf(both), microseconds(575));
}

TEST(StepCostsTest, TimesAreNeverNegative) {
  const StepCosts costs =
      Parsed(R"({"axes": [["rows", [2, 4]]], "microseconds": [100, 50]})");

  EXPECT_EQ(costs.TimeOf(Forest(10)), microseconds(0));
}

TEST(StepCostsTest, TimesAreBoundedHoweverSteepATermIs) {
  const StepCosts steep = Parsed(
      R"({"axes": [["rows", [1, 1.0000000000000002]]],
          "microseconds": [0, 1e12]})");
  EXPECT_EQ(steep.TimeOf(Forest(1000)), StepCosts::kMaxTime);

  // Infinity minus infinity.
  const StepCosts none = Parsed(
      R"({"axes": [["rows", [0, 5e-324]]], "microseconds": [1e12, 1e12]})");
  EXPECT_GE(none.TimeOf(Forest(1)).count(), 0);
}

TEST(StepCostsTest, ErrorsNameTheTermAndWhatIsWrong) {
  const struct {
    const char* terms;
    const char* message;
  } cases[] = {
      {R"({"axes": [], "microseconds": 1})", "1 to 4 axes"},
      {R"({"axes": [["rows", []]], "microseconds": []})", "has no points"},
      {R"({"name": "a", "axes": [["columns", [1]]], "microseconds": [1]})",
       "term 'a': an axis is of \"columns\""},
      {R"({"axes": [["rows", [2, 2]]], "microseconds": [1, 1]})",
       "no number above"},
      {R"({"axes": [["rows", [1, 2]]], "microseconds": [1]})",
       "1 entries along rows, which has 2 points"},
      {R"({"axes": [["rows", [1]]], "microseconds": [-1]})", "no time"},
      {R"({"axes": [["rows", 1]], "microseconds": [1]})",
       "is not [quantity, [points]]"}};
  for (const auto& [terms, message] : cases) {
    const auto costs =
        StepCosts::Parse(std::string("{\"terms\": [") + terms + "]}");
    EXPECT_NE(costs.status().message().find(message), absl::string_view::npos)
        << costs.status();
  }
  EXPECT_FALSE(StepCosts::Parse("[]").ok());
  EXPECT_FALSE(StepCosts::Parse("{").ok());
}

TEST(StepCostsTest, TheExampleIsRead) {
  const auto costs = StepCosts::Load("tests/simulation/costs/h200_9b.json");
  ASSERT_TRUE(costs.ok()) << costs.status();
  // Plain decoding of one request: 4.2 ms.
  StepPlan plan = Forest(1);
  plan.forest = *BuildForest(
      std::vector<NodeList>{{.token = {1}, .parent = {kNoParent}}});
  EXPECT_NEAR(static_cast<double>(costs->TimeOf(plan).count()), 4.2e6, 1e5);

  EXPECT_NE(StepCosts::Load("tests/simulation/BUILD")
                .status()
                .message()
                .find("tests/simulation/BUILD: "),
            absl::string_view::npos);
}

}  // namespace
}  // namespace bole
