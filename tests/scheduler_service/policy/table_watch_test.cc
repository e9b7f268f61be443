#include "scheduler_service/policy/table_watch.h"

#include <cstddef>
#include <memory>

#include "common/cost_table.h"
#include "common/step_costs.h"
#include "gtest/gtest.h"
#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {
namespace {

// Counts what it is told, and chooses a budget that can be told apart.
class CountingPolicy final : public RoundPolicy {
 public:
  explicit CountingPolicy(int& num_observed) : num_observed_(num_observed) {}

  const RoundBounds& bounds() const override { return bounds_; }
  RoundChoice Choose(const RoundView& view) override {
    return {.budget = 40 + view.prefilling};
  }
  bool urgent_first() const override { return true; }
  void Observe(const RoundReport&) override { ++num_observed_; }

 private:
  const RoundBounds bounds_{.draft = {}, .max_nodes_per_tree = 7};
  int& num_observed_;
};

class TableWatchTest : public ::testing::Test {
 protected:
  // Rounds of a row, of which the table says that each takes 1 ms, take so
  // long.
  void Run(int rounds, double seconds) {
    RoundReport report;
    report.quantities[static_cast<size_t>(Quantity::kRows)] = 1;
    report.step_seconds = seconds;
    for (int i = 0; i < rounds; ++i) watch_.Observe(report);
  }

  static CostModel Table() {
    const auto costs = StepCosts::Parse(
        R"({"terms": [{"name": "verify", "axes": [["rows", [1, 64]]],
                       "microseconds": [1000, 1000]}]})");
    auto table = std::make_shared<CostTable>();
    table->costs = costs.value();
    return CostModel(table, /*row_buckets=*/{});
  }

  int num_observed_ = 0;
  TableWatch watch_{std::make_unique<CountingPolicy>(num_observed_), Table()};
};

TEST_F(TableWatchTest, DecidesAsThePolicyThatItWatches) {
  EXPECT_EQ(watch_.Choose({.prefilling = 2}).budget, 42);
  EXPECT_EQ(watch_.bounds().max_nodes_per_tree, 7);
  EXPECT_TRUE(watch_.urgent_first());
  Run(3, 1e-3);
  EXPECT_EQ(num_observed_, 3);
}

TEST_F(TableWatchTest, ATableThatHoldsIsNoFallback) {
  Run(1000, 1.3e-3);
  EXPECT_STREQ(watch_.fallback(), "");
}

TEST_F(TableWatchTest, SlowerRoundsMakeItStaleAndRightOnesFreshAgain) {
  Run(TableWatch::kMinRounds - 1, 3e-3);
  EXPECT_STREQ(watch_.fallback(), "");
  Run(1, 3e-3);
  EXPECT_STREQ(watch_.fallback(), "stale_table");

  Run(300, 1e-3);

  EXPECT_STREQ(watch_.fallback(), "");
}

TEST_F(TableWatchTest, FasterRoundsMakeItStaleToo) {
  Run(500, 0.4e-3);
  EXPECT_STREQ(watch_.fallback(), "stale_table");
}

TEST_F(TableWatchTest, FewRoundsThatStoodStillDoNot) {
  for (int i = 0; i < 50; ++i) {
    Run(19, 1e-3);
    Run(1, 30);
  }
  EXPECT_STREQ(watch_.fallback(), "");
}

TEST_F(TableWatchTest, TimesThatAreNotKnownSayNothing) {
  Run(1000, 0);
  EXPECT_STREQ(watch_.fallback(), "");
}

}  // namespace
}  // namespace bole
