#include "worker_service/calibration/fit.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "common/step.h"
#include "common/step_costs.h"
#include "gtest/gtest.h"
#include "worker_service/calibration/combinations.h"
#include "worker_service/calibration/least_squares.h"

namespace bole {
namespace {

const std::vector<int> kGpuBuckets = {1,  2,   4,   8,   16,  32, 64,
                                      96, 128, 192, 256, 384, 512};

double Get(const RoundQuantities& quantities, Quantity quantity) {
  return quantities[static_cast<size_t>(quantity)];
}

// A GPU whose rows are free up to 128, and dear beyond. Not made of the terms
// that are fitted: attention has a latency, and levels of drafts a threshold.
// Chunks of up to 8 tokens are other kernels'.
double GpuTime(const RoundQuantities& of) {
  double rows = Get(of, Quantity::kForwardRows);
  const auto bucket =
      std::lower_bound(kGpuBuckets.begin(), kGpuBuckets.end(), rows);
  if (bucket != kGpuBuckets.end()) rows = *bucket;
  double time = 4200 + 2 * rows + 20 * std::max(0.0, rows - 128);
  time += 30 * Get(of, Quantity::kRequests);
  time += std::max(20.0, 0.004 * Get(of, Quantity::kKvTokens));
  if (Get(of, Quantity::kDraftRows) > 0) {
    time += 60 + 0.8 * Get(of, Quantity::kDraftRows);
  }
  if (Get(of, Quantity::kDraftDepth) > 0) {
    const double lanes =
        Get(of, Quantity::kDraftTopK) * Get(of, Quantity::kRequests);
    time += 200 + (Get(of, Quantity::kDraftDepth) - 1) *
                      (130 + 0.6 * std::max(0.0, lanes - 16));
  }
  const double chunk = Get(of, Quantity::kPrefillTokens);
  time += (chunk > 8 ? 0.12 : 0.01) * Get(of, Quantity::kPrefillKvTokens);
  time += 3e-6 * chunk * Get(of, Quantity::kPrefillKvTokens);
  const double tails = Get(of, Quantity::kTailTokens);
  if (tails > 0) time += 110 + std::max(40.0, 1.2 * tails);
  return time;
}

// The same with 256 experts of which a row reads 8, and with fewer other
// weights. What pads a forward reads none.
constexpr Experts kExperts = {.count = 256, .per_token = 8};
double MoeTime(const RoundQuantities& of) {
  const double read =
      256 - 256 * std::pow(1 - 8.0 / 256, Get(of, Quantity::kForwardRows));
  return GpuTime(of) - 2500 + 80 * read;
}

// A CPU, whose rows all cost the same.
double CpuTime(const RoundQuantities& of) {
  double time = 300 + 900 * Get(of, Quantity::kForwardRows) +
                200 * Get(of, Quantity::kRows) +
                50 * Get(of, Quantity::kRequests);
  const double requests = std::max(1.0, Get(of, Quantity::kRequests));
  time +=
      0.1 * Get(of, Quantity::kKvTokens) / requests * Get(of, Quantity::kRows);
  if (Get(of, Quantity::kDraftDepth) > 0) {
    time += requests * (300 + 250 * Get(of, Quantity::kDraftTopK) *
                                  (Get(of, Quantity::kDraftDepth) - 1));
  }
  time += 0.1 * Get(of, Quantity::kPrefillTokens) *
          Get(of, Quantity::kPrefillKvTokens);
  return time;
}

// The quantities of a round, as far as they follow from its kind.
RoundQuantities QuantitiesOf(const Combination& of) {
  RoundQuantities quantities{};
  const auto set = [&](Quantity quantity, double value) {
    quantities[static_cast<size_t>(quantity)] = value;
  };
  const int rows = of.requests * of.nodes_per_tree;
  set(Quantity::kRows, rows);
  set(Quantity::kRequests, of.requests);
  set(Quantity::kKvTokens, of.requests * of.committed);
  set(Quantity::kPrefillTokens, of.chunk);
  set(Quantity::kPrefillKvTokens, of.chunk_committed);
  set(Quantity::kDraftTopK, of.draft ? of.draft->top_k : 0);
  set(Quantity::kDraftDepth, of.draft ? of.draft->depth : 0);
  set(Quantity::kForwardRows, rows + of.chunk);
  set(Quantity::kDraftRows, rows - of.requests);
  set(Quantity::kTailTokens, of.requests * of.draft_tail);
  return quantities;
}

StepLimits Limits(bool is_gpu) {
  return {.max_requests = is_gpu ? 32 : 16,
          .max_nodes = 512,
          .max_nodes_per_tree = is_gpu ? 128 : 64,
          .max_prefill_tokens = is_gpu ? 2048 : 512,
          .max_draft = {.top_k = 4, .depth = 8},
          .num_slots = is_gpu ? 32 : 16,
          .num_pages = is_gpu ? 32 * 512 : 16 * 16,
          .page_size = 64,
          .max_context = 8192,
          .vocabulary = 1000,
          .max_lease_rounds = is_gpu ? 8 : 1};
}

struct Errors {
  double median;
  double p95;
  double plan;  // Microseconds of a plan.
};

// Measures with such noise, one measurement in twenty being three times too
// long, and fits.
template <typename TimeOf>
Errors FitAndPredict(CalibrationSize size, bool is_gpu, double noise,
                     double plan, TimeOf time_of, const Experts& experts = {}) {
  const StepLimits limits = Limits(is_gpu);
  const std::vector<Combination> all =
      CombinationsOf(limits, true, size, *LayoutOf(limits, size));
  std::mt19937 rng(7);
  std::normal_distribution<double> normal(1, noise);
  std::vector<Observation> observations;
  int number = 0;
  for (const Combination& kind : all) {
    if (kind.held_out) continue;
    const bool is_plan = kind.rounds == 1;
    const RoundQuantities quantities = QuantitiesOf(kind);
    const double slow = noise > 0 && ++number % 20 == 0 ? 3 : 1;
    observations.push_back(
        {.quantities = quantities,
         .microseconds =
             (time_of(quantities) + (is_plan ? plan : 0)) * normal(rng) * slow,
         .is_plan = is_plan});
  }
  const FittedCosts fitted = FitCosts(
      observations, is_gpu ? kGpuBuckets : std::vector<int>(), experts);
  std::vector<double> errors;
  for (const Combination& kind : all) {
    if (!kind.held_out) continue;
    const double truth = time_of(QuantitiesOf(kind));
    const std::chrono::duration<double, std::micro> predicted =
        fitted.costs.TimeOf(QuantitiesOf(kind));
    errors.push_back(std::abs(predicted.count() - truth) / truth);
  }
  std::sort(errors.begin(), errors.end());
  return {.median = errors[errors.size() / 2],
          .p95 = errors[errors.size() * 95 / 100],
          .plan = fitted.plan_microseconds};
}

TEST(FitTest, PredictsAGpu) {
  const Errors errors =
      FitAndPredict(CalibrationSize::kFull, true, 0, 90, GpuTime);

  EXPECT_LT(errors.median, 0.01);
  EXPECT_LT(errors.p95, 0.02);
  EXPECT_NEAR(errors.plan, 90, 30);
}

TEST(FitTest, PredictsAGpuInSpiteOfNoise) {
  const Errors errors =
      FitAndPredict(CalibrationSize::kFull, true, 0.02, 90, GpuTime);

  EXPECT_LT(errors.median, 0.02);
  EXPECT_LT(errors.p95, 0.05);
}

TEST(FitTest, RowsReadTheExpertsThatTheyHitAndPaddingReadsNone) {
  const auto errors = [](double noise, const Experts& experts) {
    return FitAndPredict(CalibrationSize::kFull, true, noise, 90, MoeTime,
                         experts);
  };

  EXPECT_GT(errors(0, {}).p95, 0.1);
  EXPECT_LT(errors(0, kExperts).p95, 0.02);
  EXPECT_LT(errors(0.02, kExperts).p95, 0.05);
}

TEST(ExpertsTest, ReadByCountsDistinctOnes) {
  std::mt19937 rng(5);
  for (const int rows : {1, 2, 7, 64}) {
    int read = 0;
    for (int trial = 0; trial < 1000; ++trial) {
      std::vector<bool> hit(32, false);
      for (int row = 0; row < rows; ++row) {
        std::vector<int> all(32);
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), rng);
        for (int i = 0; i < 3; ++i) hit[all[i]] = true;
      }
      read += static_cast<int>(std::count(hit.begin(), hit.end(), true));
    }
    EXPECT_NEAR((Experts{.count = 32, .per_token = 3}).ReadBy(rows),
                read / 1000.0, 0.2)
        << rows;
  }
}

TEST(FitTest, PredictsACpuCoarsely) {
  const Errors errors =
      FitAndPredict(CalibrationSize::kCoarse, false, 0, 0, CpuTime);

  EXPECT_LT(errors.median, 0.05);
  EXPECT_LT(errors.p95, 0.2);
  EXPECT_EQ(errors.plan, 0);
}

TEST(FitTest, PredictsACpuInSpiteOfNoise) {
  const Errors errors =
      FitAndPredict(CalibrationSize::kCoarse, false, 0.1, 0, CpuTime);

  EXPECT_LT(errors.median, 0.15);
}

TEST(FitTest, TermsThatWereNotObservedAreLeftOut) {
  std::vector<Observation> observations;
  for (const int requests : {1, 2, 8}) {
    const RoundQuantities quantities =
        QuantitiesOf({.requests = requests, .committed = 100});
    observations.push_back(
        {.quantities = quantities, .microseconds = CpuTime(quantities)});
  }

  const FittedCosts fitted = FitCosts(observations, {});

  for (const StepCosts::Term& term : fitted.costs.terms()) {
    EXPECT_TRUE(term.name != "draft" && term.name != "tree" &&
                term.name != "prefill")
        << term.name;
  }
  EXPECT_TRUE(FitCosts({}, {}).costs.terms().empty());
}

TEST(FitToOnesTest, FindsFactorsAndKeepsThemFromGoingBelowZero) {
  std::vector<std::vector<double>> rows;
  for (int i = 1; i <= 20; ++i) {
    const double time = 3.0 + 2.0 * i;
    rows.push_back({1 / time, i / time, i * i / time});
  }
  const std::vector<double> exact = FitToOnes(rows);
  EXPECT_NEAR(exact[0], 3, 0.02);
  EXPECT_NEAR(exact[1], 2, 0.01);
  EXPECT_NEAR(exact[2], 0, 0.001);

  // Growing less than in proportion would need a factor below zero.
  rows.clear();
  for (int i = 1; i <= 20; ++i) {
    const double time = 10 * i - 0.3 * i * i;
    rows.push_back({i / time, i * i / time});
  }
  const std::vector<double> bounded = FitToOnes(rows);
  EXPECT_GT(bounded[0], 4);
  EXPECT_EQ(bounded[1], 0);
}

}  // namespace
}  // namespace bole
