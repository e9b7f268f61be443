#include "scheduler_service/policy/cost_model.h"

#include <memory>
#include <vector>

#include "common/cost_table.h"
#include "common/draft_shape.h"
#include "common/step_costs.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

// A millisecond, and as much for every 100 rows; drafts take half of one.
std::shared_ptr<const CostTable> Table() {
  auto table = std::make_shared<CostTable>();
  table->costs = *StepCosts::Parse(R"({"terms": [
      {"name": "forward", "axes": [["forward_rows", [0, 100]]],
       "microseconds": [1000, 2000]},
      {"name": "draft", "axes": [["draft_depth", [1, 8]]],
       "microseconds": [500, 500]}]})");
  table->round_trip_seconds = 0.0002;
  return table;
}

PlannedWork Rows(int rows) { return {.rows = rows, .requests = 1}; }

TEST(CostModelTest, RowsCostAsTheBucketThatHoldsThem) {
  const CostModel padded(Table(), {1, 64, 96, 128});
  const CostModel exact(Table(), {});

  EXPECT_NEAR(padded.Seconds(Rows(65)), 0.00196, 1e-9);
  EXPECT_NEAR(padded.Seconds(Rows(96)), 0.00196, 1e-9);
  EXPECT_NEAR(padded.Seconds(Rows(200)), 0.003, 1e-9);
  EXPECT_NEAR(exact.Seconds(Rows(65)), 0.00165, 1e-9);
  PlannedWork shared = Rows(60);
  shared.prefill_tokens = 10;
  EXPECT_NEAR(padded.Seconds(shared), 0.00196, 1e-9);
}

TEST(CostModelTest, ATableMayTellRowsThatArePaddedFromThoseThatAreThere) {
  auto table = std::make_shared<CostTable>();
  table->costs = *StepCosts::Parse(R"({"row_buckets": [1, 64], "terms": [
      {"axes": [["forward_rows", [0, 100]]], "microseconds": [1000, 2000]},
      {"axes": [["exact_rows", [0, 100]]], "microseconds": [0, 100]},
      {"axes": [["requests", [0, 100]]], "microseconds": [0, 10000]},
      {"axes": [["tail_tokens", [0, 100]]], "microseconds": [300, 400]}]})");
  const CostModel model(table, {1, 64});

  PlannedWork work = Rows(40);
  EXPECT_NEAR(model.Seconds(work), 0.00164 + 0.00004 + 0.0001, 1e-9);
  work.tail_tokens = 10;
  EXPECT_NEAR(model.Seconds(work), 0.00178 + 0.00031, 1e-9);
}

TEST(CostModelTest, BordersAreWhereBucketsEnd) {
  const CostModel padded(Table(), {1, 64, 96, 128});
  const CostModel exact(Table(), {});

  EXPECT_EQ(padded.Borders(4, 100, 0), (std::vector<int>{4, 64, 96, 100}));
  EXPECT_EQ(padded.Borders(4, 100, 32), (std::vector<int>{4, 32, 64, 96, 100}));
  EXPECT_EQ(padded.Borders(4, 4, 0), (std::vector<int>{4}));
  EXPECT_EQ(exact.Borders(2, 9, 0), (std::vector<int>{2, 4, 6, 8, 9}));
}

TEST(CostModelTest, AChangeOfClockIsLearntWithin100Rounds) {
  CostModel model(Table(), {1, 64, 96, 128});
  const CostModel before(Table(), {1, 64, 96, 128});
  for (int i = 0; i < 100; ++i) {
    model.Observe(QuantitiesOf(Rows(64)), 1.3 * before.Seconds(Rows(64)));
  }

  EXPECT_NEAR(model.Seconds(Rows(64)) / before.Seconds(Rows(64)), 1.3, 0.02);
  // What was not run is taken to be slower as well.
  EXPECT_NEAR(model.Seconds(Rows(1)) / before.Seconds(Rows(1)), 1.15, 0.03);
  EXPECT_GT(model.version(), 0);
}

TEST(CostModelTest, OneKindOfRoundMayBeDearerThanTheTableSays) {
  CostModel model(Table(), {1, 64, 96, 128});
  const CostModel before(Table(), {1, 64, 96, 128});
  PlannedWork drafts = Rows(64);
  drafts.draft = DraftShape{.top_k = 1, .depth = 4};
  for (int i = 0; i < 2000; ++i) {
    model.Observe(QuantitiesOf(drafts), 1.15 * before.Seconds(drafts));
    model.Observe(QuantitiesOf(Rows(1)), before.Seconds(Rows(1)));
  }

  EXPECT_NEAR(model.Seconds(drafts) / before.Seconds(drafts), 1.15, 0.02);
  EXPECT_NEAR(model.Seconds(Rows(1)) / before.Seconds(Rows(1)), 1, 0.02);
}

TEST(CostModelTest, AKindThatIsATenthDearerIsKnownAfter50Rounds) {
  CostModel model(Table(), {1, 64, 96, 128});
  const CostModel before(Table(), {1, 64, 96, 128});
  PlannedWork chain = Rows(64);
  chain.draft = DraftShape{.top_k = 1, .depth = 3};
  PlannedWork tree = Rows(64);
  tree.draft = DraftShape{.top_k = 4, .depth = 8};
  const auto off = [&](const PlannedWork& work) {
    return model.Seconds(work) / before.Seconds(work);
  };
  for (int i = 0; i < 50; ++i) {
    model.Observe(QuantitiesOf(tree), 1.1 * before.Seconds(tree));
  }

  EXPECT_NEAR(off(tree), 1.1, 0.01);
  EXPECT_LT(off(chain), 1.05);
  // A few rounds of the other one say how dear that is.
  for (int i = 0; i < 12; ++i) {
    model.Observe(QuantitiesOf(chain), before.Seconds(chain));
  }
  EXPECT_GT(off(tree) / off(chain), 1.07);
}

TEST(CostModelTest, OutliersTeachLittle) {
  CostModel model(Table(), {});
  const double before = model.Seconds(Rows(8));
  model.Observe(QuantitiesOf(Rows(8)), 100);

  EXPECT_LT(model.Seconds(Rows(8)), 1.05 * before);
  model.ObserveTrip(10);
  EXPECT_LT(model.trip_seconds(), 0.00022);
}

}  // namespace
}  // namespace bole
