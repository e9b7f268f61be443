// The calibrator on a GPU that is a formula.
#include "worker_service/calibration/calibrator.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/packed_forest.h"
#include "common/step.h"
#include "common/step_costs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"
#include "worker_service/calibration/combinations.h"
#include "worker_service/calibration/report.h"
#include "worker_service/engine/validate_plan.h"

namespace bole {
namespace {

using ::bole::testing::RandomTree;
using ::bole::testing::UniformInt;
using ::testing::HasSubstr;

const std::vector<int> kBuckets = {1,  2,   4,   8,   16,  32, 64,
                                   96, 128, 192, 256, 384, 512};
constexpr double kPlanMicroseconds = 150;  // Of a plan beyond its rounds.

StepLimits Limits() {
  return {.max_requests = 16,
          .max_nodes = 512,
          .max_nodes_per_tree = 64,
          .max_prefill_tokens = 512,
          .max_draft = {.top_k = 4, .depth = 8},
          .num_slots = 16,
          .num_pages = 16 * 32,
          .page_size = 64,
          .max_context = 4096,
          .vocabulary = 1000,
          .max_lease_rounds = 4};
}

double Get(const RoundQuantities& quantities, Quantity quantity) {
  return quantities[static_cast<size_t>(quantity)];
}

double Microseconds(const RoundQuantities& of) {
  double rows = Get(of, Quantity::kForwardRows);
  const auto bucket = std::lower_bound(kBuckets.begin(), kBuckets.end(), rows);
  if (bucket != kBuckets.end()) rows = *bucket;
  double time = 4000 + 3 * rows + 15 * std::max(0.0, rows - 128);
  time += 20 * Get(of, Quantity::kRequests);
  time += 0.002 * Get(of, Quantity::kKvTokens);
  if (Get(of, Quantity::kDraftRows) > 0) time += 80;
  if (Get(of, Quantity::kDraftDepth) > 0) {
    time += 150 + 120 * Get(of, Quantity::kDraftDepth);
  }
  const double tails = Get(of, Quantity::kTailTokens);
  if (tails > 0) time += 200 + 3 * tails;
  return time;
}

// Answers plans as an engine would, in the time of the formula. Requests
// commit a token or two a round.
class FormulaEngine {
 public:
  absl::StatusOr<std::vector<TimedRound>> Run(const StepPlan& plan) {
    ++plans_;
    const absl::Status valid =
        ValidatePlan(plan, Limits(), /*has_drafter=*/true);
    if (!valid.ok()) return valid;
    if (plans_ > fails_after_) return absl::UnavailableError("gone");
    std::vector<int> committed;
    for (const SequencePlan& sequence : plan.sequences) {
      committed.push_back(sequence.committed);
    }
    std::vector<TimedRound> rounds;
    const int count = plan.lease ? plan.lease->rounds : 1;
    rounds.reserve(static_cast<size_t>(count));
    for (int round = 0; round < count; ++round) {
      rounds.push_back(RoundOf(plan, round, round + 1 == count, committed));
    }
    return rounds;
  }
  void FailAfter(int plans) { fails_after_ = plans; }
  int plans() const { return plans_; }

 private:
  TimedRound RoundOf(const StepPlan& plan, int round, bool is_last,
                     std::vector<int>& committed) {
    StepPlan ran = plan;
    TimedRound timed;
    for (size_t b = 0; b < committed.size(); ++b) {
      ran.sequences[b].committed = committed[b];
      committed[b] += UniformInt(rng_, 1, 2);
      timed.result.sequences.push_back(Answer(plan, committed[b], is_last));
    }
    for (const PrefillPlan& chunk : plan.prefills) {
      timed.result.prefills.push_back(
          Answer(plan, chunk.sequence.committed, is_last));
    }
    timed.result.round = round;
    timed.result.is_last = is_last;
    if (round > 0) timed.result.forest = plan.forest;
    const double noise = std::normal_distribution<double>(1, 0.01)(rng_);
    // Whoever else uses the machine.
    const double slow = UniformInt(rng_, 0, 9) == 0 ? 2 : 1;
    timed.seconds = (Microseconds(QuantitiesOf(ran)) +
                     (round == 0 ? kPlanMicroseconds : 0)) *
                    noise * slow * 1e-6;
    return timed;
  }

  SequenceResult Answer(const StepPlan& plan, int committed, bool is_last) {
    SequenceResult of;
    of.committed = committed;
    of.emitted.resize(1);
    of.emitted[0].token = UniformInt(rng_, 0, 999);
    if (!plan.draft || !is_last) return of;
    ProposalTree tree = RandomTree(rng_, plan.draft->num_candidates() + 1);
    for (int i = 1; i < tree.size(); ++i) tree.token[i] = i;
    tree.token[0] = of.emitted[0].token;
    of.proposal = std::move(tree);
    return of;
  }

  std::mt19937 rng_{3};
  int plans_ = 0;
  int fails_after_ = 1 << 20;
};

CalibrationOptions Options(CalibrationSize size) {
  return {.size = size,
          .of = {.model = "formula", .device = "paper"},
          .limits = Limits(),
          .has_drafter = true,
          .row_buckets = kBuckets,
          .round_trip_seconds = 100e-6};
}

TEST(CalibratorTest, PredictsRoundsThatWereHeldOut) {
  FormulaEngine engine;
  std::vector<CalibrationProgress> progress;

  const absl::StatusOr<CostTable> table = Calibrate(
      Options(CalibrationSize::kFull),
      [&](const StepPlan& plan) { return engine.Run(plan); },
      [&](const CalibrationProgress& next) { progress.push_back(next); });

  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->of.model, "formula");
  EXPECT_LT(ErrorsOf(*table).median, 0.02);
  EXPECT_LT(ErrorsOf(*table).p95, 0.05) << ReportOf(*table);
  EXPECT_GT(table->held_out.size(), 25u);
  EXPECT_GE(table->num_measurements, 10 * table->num_combinations);
  // The way between the services, and a plan's own time.
  EXPECT_NEAR(table->round_trip_seconds, 250e-6, 50e-6);
  EXPECT_EQ(table->measured_at.size(), 20u) << table->measured_at;
  EXPECT_EQ(progress.front().phase, "prefilling");
  EXPECT_EQ(progress.back().phase, "fitting");
  EXPECT_EQ(progress.back().done, progress.back().total);
}

TEST(CalibratorTest, TheStepBetweenBucketsIsFound) {
  FormulaEngine engine;
  const absl::StatusOr<CostTable> table = Calibrate(
      Options(CalibrationSize::kFull),
      [&](const StepPlan& plan) { return engine.Run(plan); },
      [](const CalibrationProgress&) {});
  ASSERT_TRUE(table.ok()) << table.status();
  const auto time_of = [&](double rows) {
    RoundQuantities of{};
    of[static_cast<size_t>(Quantity::kRows)] = rows;
    of[static_cast<size_t>(Quantity::kForwardRows)] = rows;
    of[static_cast<size_t>(Quantity::kRequests)] = 8;
    of[static_cast<size_t>(Quantity::kKvTokens)] = 1024;
    of[static_cast<size_t>(Quantity::kDraftRows)] = rows - 8;
    return static_cast<double>(table->costs.TimeOf(of).count()) / 1e3;
  };

  EXPECT_EQ(time_of(129), time_of(190));
  // 64 rows more, of 3 and of 15 microseconds each.
  EXPECT_NEAR(time_of(129) - time_of(128), 64 * 18, 250);
}

TEST(CalibratorTest, WhatTheDrafterIsShownLaterIsAPartOfItsRound) {
  FormulaEngine engine;
  const absl::StatusOr<CostTable> table = Calibrate(
      Options(CalibrationSize::kFull),
      [&](const StepPlan& plan) { return engine.Run(plan); },
      [](const CalibrationProgress&) {});
  ASSERT_TRUE(table.ok()) << table.status();
  RoundQuantities of{};
  of[static_cast<size_t>(Quantity::kTailTokens)] = 256;

  const std::chrono::duration<double, std::micro> time =
      table->costs.TimeOf(of);
  EXPECT_NEAR(time.count(), 200 + 3 * 256, 100);
}

TEST(CalibratorTest, ErrorsOfThePlansEndIt) {
  FormulaEngine engine;
  engine.FailAfter(40);

  const absl::Status status =
      Calibrate(
          Options(CalibrationSize::kCoarse),
          [&](const StepPlan& plan) { return engine.Run(plan); },
          [](const CalibrationProgress&) {})
          .status();

  EXPECT_EQ(status, absl::UnavailableError("gone"));
  EXPECT_EQ(engine.plans(), 41);
}

TEST(CalibratorTest, WhatCannotBeMeasuredOnceInTimeIsAnError) {
  FormulaEngine engine;
  CalibrationOptions options = Options(CalibrationSize::kCoarse);
  options.max_time = std::chrono::nanoseconds(1);

  const absl::Status status =
      Calibrate(
          options, [&](const StepPlan& plan) { return engine.Run(plan); },
          [](const CalibrationProgress&) {})
          .status();

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("only 0 of "));
}

TEST(ReportTest, SaysHowFarOffPredictionsWere) {
  CostTable table{.of = {.model = "demo", .device = "cpu, 2 threads"}};
  RoundQuantities round{};
  round[static_cast<size_t>(Quantity::kRows)] = 24;
  round[static_cast<size_t>(Quantity::kRequests)] = 3;
  table.held_out.push_back(
      {.quantities = round, .predicted_us = 11'000, .measured_us = 10'000});

  const std::string report = ReportOf(table);

  EXPECT_THAT(report, HasSubstr("demo on cpu, 2 threads"));
  EXPECT_THAT(report, HasSubstr("10.000    11.000    10.0%"));
  EXPECT_THAT(report, HasSubstr("median 10.0%, 95th percentile 10.0%"));
}

TEST(ReportTest, DrawsForwardsAndDrafts) {
  const std::vector<StepCosts::Term> terms = {
      {.name = "forward",
       .axes = {{Quantity::kForwardRows, {1, 64}}},
       .microseconds = {1000, 2000}},
      {.name = "requests",
       .axes = {{Quantity::kRequests, {1, 4}}},
       .microseconds = {0, 100}}};
  const std::string svg =
      ChartsOf({.of = {.model = "demo"}, .costs = StepCosts(terms, {})});

  EXPECT_EQ(svg.find("<svg"), 0u);
  EXPECT_THAT(svg, HasSubstr("4 requests"));
  EXPECT_THAT(svg, HasSubstr("top 4, depth 8"));
}

}  // namespace
}  // namespace bole
