#include "scheduler_service/policy/goodput_policy.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler_service/policy/calibrated_worker.h"
#include "scheduler_service/policy/draft_offers.h"
#include "scheduler_service/policy/make_policy.h"
#include "tests/scheduler_service/policy/simulated_decoding.h"
#include "tests/testing/exhaustive.h"

namespace bole {
namespace {

using ::bole::testing::DraftQuality;
using ::bole::testing::FixedChoice;
using ::bole::testing::SimulatedBatch;
using ::bole::testing::SimulatedCosts;
using ::bole::testing::SimulatedDecoding;

const std::vector<int>& GpuBuckets() {
  static const std::vector<int> buckets = {1,  2,   4,   8,   16,  32,  64,
                                           96, 128, 192, 256, 384, 512, 1024};
  return buckets;
}

// Approximately a dense 9B model on one H200.
SimulatedCosts Dense() {
  return {.name = "dense",
          .json = R"({"terms": [
 {"name": "forward", "axes": [["forward_rows",
   [1, 16, 64, 96, 128, 192, 256, 384, 512, 1024]]],
  "microseconds": [4160, 4550, 4870, 5300, 5700, 6400, 7000, 10500, 13500,
                   25000]},
 {"name": "kv", "axes": [["kv_tokens", [0, 1000000]]],
  "microseconds": [0, 7900]},
 {"name": "accept", "axes": [["requests", [1, 8, 16, 64]]],
  "microseconds": [71, 385, 757, 2900]},
 {"name": "draft", "axes": [["draft_depth", [1, 3, 5, 8]],
                            ["draft_top_k", [1, 4]], ["requests", [1, 16, 64]]],
  "microseconds": [[[150, 300, 700], [170, 350, 900]],
                   [[420, 600, 1300], [500, 750, 1900]],
                   [[700, 950, 1900], [850, 1300, 3100]],
                   [[1100, 1500, 2900], [1330, 2320, 5200]]]}
]})",
          .row_buckets = GpuBuckets()};
}

// The cost jumps where a tile of rows ends.
SimulatedCosts Steps() {
  return {.name = "steps",
          .json = R"({"terms": [
 {"name": "forward", "axes": [["forward_rows",
   [1, 64, 128, 192, 256, 384, 512, 1024]]],
  "microseconds": [4000, 4000, 4200, 7800, 8000, 12000, 12500, 25000]},
 {"name": "draft", "axes": [["draft_depth", [3, 8]],
                            ["draft_top_k", [1, 4]]],
  "microseconds": [[300, 400], [800, 1000]]}
]})",
          .row_buckets = {1, 64, 128, 192, 256, 384, 512, 1024}};
}

// Every further row activates more experts.
SimulatedCosts Experts() {
  return {.name = "experts",
          .json = R"({"terms": [
 {"name": "forward", "axes": [["forward_rows",
   [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]]],
  "microseconds": [3000, 3500, 4300, 5900, 8800, 12500, 16000, 18500, 20000,
                   24000, 32000]},
 {"name": "draft", "axes": [["draft_depth", [3, 8]],
                            ["draft_top_k", [1, 4]]],
  "microseconds": [[400, 600], [1000, 1600]]}
]})",
          .row_buckets = GpuBuckets()};
}

// The cost is proportional to the number of rows, so speculation does not pay.
SimulatedCosts Cpu() {
  return {.name = "cpu",
          .json = R"({"terms": [
 {"name": "forward", "axes": [["forward_rows", [1, 1024]]],
  "microseconds": [9000, 9216000]},
 {"name": "draft", "axes": [["draft_depth", [1, 8]], ["requests", [1, 64]]],
  "microseconds": [[2000, 128000], [16000, 1024000]]}
]})",
          .row_buckets = {},
          .trip_seconds = 0.0005};
}

const DraftQuality kWrong = {.easy_share = 0, .easy = 0, .hard = 1e-6};
const DraftQuality kLow = {.easy_share = 0.2, .easy = 0.7, .hard = 0.2};
const DraftQuality kMiddling = {.easy_share = 0.5, .easy = 0.9, .hard = 0.5};
const DraftQuality kHigh = {.easy_share = 0.8, .easy = 0.97, .hard = 0.7};

// The best fixed choice of all draft shapes and budgets (CostModel::Borders()).
struct Oracle {
  double rate = 0;
  FixedChoice choice;
};

Oracle FindOracle(const SimulatedCosts& costs, const SimulatedBatch& batch,
                  int rounds) {
  Oracle oracle;
  const PolicyOptions options;
  SimulatedDecoding decoding(costs, batch, /*seed=*/1);
  const WorkerDescription& worker = decoding.worker();
  const CostModel truth(worker.costs, worker.row_buckets);
  for (const auto& draft : ShapesOf(options.speculation, worker.limits)) {
    const int most =
        draft ? std::min(batch.requests * (1 + draft->num_candidates()), 1024)
              : batch.requests;
    for (const int budget : truth.Borders(batch.requests, most, 0)) {
      const double seconds = truth.Seconds(
          PlannedWork{.rows = budget,
                      .requests = batch.requests,
                      .kv_tokens = batch.requests * batch.kv_tokens_each,
                      .draft = draft});
      const FixedChoice choice{
          .draft = draft,
          .budget = budget,
          .lease_rounds = LeaseRounds(options, worker.limits, seconds)};
      const double rate = decoding.Run(choice, rounds);
      if (rate > oracle.rate) oracle = {.rate = rate, .choice = choice};
    }
  }
  return oracle;
}

std::unique_ptr<RoundPolicy> Goodput(const SimulatedDecoding& decoding) {
  return MakePolicy(PolicyOptions(), decoding.worker(),
                    std::make_shared<DraftHistory>());
}

// The first of the seeds on which nothing was tuned.
constexpr int kUnseen = 1300;
constexpr int kTurns = 2;

// Enough rounds to measure a batch of so many requests.
int RoundsFor(int requests) { return std::max(60, 600 / requests); }

TEST(WorthwhileLeaseTest, WeighsTripsAgainstPlacesThatStayEmpty) {
  const Offer long_rounds{.gain = 64, .seconds = 0.01};
  const Offer short_rounds{.gain = 64, .seconds = 0.001};
  OfferedBatch batch{.requests = 32, .open = 32, .lends = true};
  // Each request emits three tokens a round. All go on, so a lease pays.
  batch.tokens_left.assign(32, 300);
  EXPECT_GE(WorthwhileLease(long_rounds, batch, 0.0002, 4), 2);
  EXPECT_EQ(WorthwhileLease(short_rounds, batch, 0.0002, 4), 4);
  // Three requests end after one round. Their empty places cost more than the
  // trips that a lease saves, unless rounds are short compared with a trip.
  for (int b = 0; b < 3; ++b) batch.tokens_left[b] = 3;
  EXPECT_EQ(WorthwhileLease(long_rounds, batch, 0.0002, 4), 1);
  EXPECT_EQ(WorthwhileLease(short_rounds, batch, 0.0002, 4), 4);
  EXPECT_EQ(WorthwhileLease(short_rounds, batch, 0.00002, 4), 1);
}

class GoodputOracleTest : public ::testing::TestWithParam<SimulatedCosts> {};

TEST_P(GoodputOracleTest, ReachesTheBestFixedChoice) {
  const SimulatedCosts& costs = GetParam();
  const std::vector<std::vector<DraftQuality>> qualities = {
      {kLow}, {kMiddling}, {kHigh}, {kLow, kHigh}};
  size_t turn = 0;
  for (const int requests : {1, 4, 16, 64}) {
    ++turn;
    for (size_t q = 0; q < qualities.size(); ++q) {
      // Two qualities for each number of requests, in turn.
      if (!testing::Exhaustive() && (q + turn) % qualities.size() > 1) continue;
      if (requests == 1 && qualities[q].size() > 1) continue;
      const SimulatedBatch batch{.requests = requests, .quality = qualities[q]};
      const Oracle oracle = FindOracle(costs, batch, RoundsFor(requests));
      const int rounds = 400 + RoundsFor(requests);
      // The oracle's choice runs with the same seeds as the policy.
      double best = 0;
      double rate = 0;
      double first = 0;
      std::array<int, 3> chosen{};
      for (int seed = kUnseen; seed < kUnseen + kTurns; ++seed) {
        SimulatedDecoding fixed(costs, batch, seed);
        best += fixed.Run(oracle.choice, rounds);
        SimulatedDecoding decoding(costs, batch, seed);
        const auto policy = Goodput(decoding);
        first += decoding.Run(*policy, 200);
        decoding.ForgetChosen();
        rate += decoding.Run(*policy, rounds);
        for (int k = 0; k < 3; ++k) chosen[k] += decoding.chosen()[k];
      }
      std::printf(
          "%8s %2d requests, quality %zu: oracle %7.1f (k %d d %d n %d), "
          "goodput %7.1f (%.3f), first %.3f; off %d chain %d tree %d\n",
          costs.name.c_str(), requests, q, best / kTurns,
          oracle.choice.draft ? oracle.choice.draft->top_k : 0,
          oracle.choice.draft ? oracle.choice.draft->depth : 0,
          oracle.choice.budget, rate / kTurns, rate / best, first / best,
          chosen[0], chosen[1], chosen[2]);
      EXPECT_GE(rate, 0.98 * best);
    }
  }
}

// The kinds of drafts, in the order of SimulatedDecoding::chosen().
enum Kind { kOff, kChain, kTree };

int ChosenMost(const SimulatedDecoding& decoding) {
  const std::array<int, 3>& chosen = decoding.chosen();
  return static_cast<int>(std::max_element(chosen.begin(), chosen.end()) -
                          chosen.begin());
}

TEST(GoodputPolicyTest, EveryKindIsBestSomewhere) {
  const auto kind_on = [](const SimulatedCosts& costs, int requests,
                          const DraftQuality& quality) {
    SimulatedDecoding decoding(
        costs, {.requests = requests, .quality = {quality}}, /*seed=*/3);
    const auto policy = Goodput(decoding);
    decoding.Run(*policy, 100);
    decoding.ForgetChosen();
    decoding.Run(*policy, 100);
    return ChosenMost(decoding);
  };

  EXPECT_EQ(kind_on(Cpu(), 1, kHigh), kOff);
  EXPECT_EQ(kind_on(Experts(), 4, kLow), kOff);
  EXPECT_EQ(kind_on(Experts(), 1, kMiddling), kChain);
  EXPECT_EQ(kind_on(Dense(), 16, kHigh), kChain);
  EXPECT_EQ(kind_on(Dense(), 1, kMiddling), kTree);
}

// The first of the seeds for simulations that change on the way.
constexpr int kChanged = 1400;  // Nothing was tuned on seeds from here on.

struct Change {
  DraftQuality before;
  DraftQuality after;
  double speed = 1;  // Afterwards.
};

// Tokens per second if everything had been from the start as it is after the
// change.
double SteadyRate(const SimulatedCosts& costs, const SimulatedBatch& batch,
                  const Change& change, int seed) {
  SimulatedDecoding decoding(costs, batch, seed);
  decoding.set_quality({change.after});
  decoding.set_speed(change.speed);
  const auto policy = Goodput(decoding);
  decoding.Run(*policy, 600);
  return decoding.Run(*policy, 200);
}

// Tokens per second of the 50 rounds that begin `wait` rounds after the change.
double RateAfter(const SimulatedCosts& costs, const SimulatedBatch& batch,
                 const Change& change, int wait, int seed) {
  SimulatedDecoding decoding(costs, batch, seed);
  const auto policy = Goodput(decoding);
  decoding.Run(*policy, 600);
  decoding.set_quality({change.after});
  decoding.set_speed(change.speed);
  decoding.Run(*policy, wait);
  return decoding.Run(*policy, 50);
}

// Requests come and go. 150 to 200 rounds after everything has become slower,
// or drafts better or worse, the policy is as good as if it had always been so;
// with few requests on "experts", 600 to 650 rounds after.
class GoodputChangeTest : public ::testing::TestWithParam<SimulatedCosts> {};

TEST_P(GoodputChangeTest, IsRightAgainWithin200Rounds) {
  const SimulatedCosts& costs = GetParam();
  const std::vector<Change> changes = {{kWrong, kHigh},
                                       {kLow, kHigh},
                                       {kHigh, kLow},
                                       {kMiddling, kMiddling, 1 / 1.3}};
  const int turns = testing::Exhaustive() ? 30 : 4;
  std::vector<double> ratios;
  for (const int requests : {1, 4, 16}) {
    for (const Change& change : changes) {
      const bool is_dear = costs.name == "experts" && requests < 16;
      const int wait = is_dear ? 600 : 150;
      const SimulatedBatch batch{
          .requests = requests,
          .quality = {change.before},
          .tokens_each = requests == 1 && !is_dear ? 20 : 60};
      double steady = 0;
      double after = 0;
      for (int turn = 0; turn < turns; ++turn) {
        const int seed = kChanged + 2 * turn;
        steady += SteadyRate(costs, batch, change, seed);
        after += RateAfter(costs, batch, change, wait, seed + 1);
      }
      std::printf("%8s %2d requests, %.2f to %.2f: %.3f\n", costs.name.c_str(),
                  requests, change.before.easy, change.after.easy,
                  after / steady);
      ratios.push_back(after / steady);
    }
  }
  EXPECT_GE(*std::min_element(ratios.begin(), ratios.end()), 0.9);
  EXPECT_GE(std::accumulate(ratios.begin(), ratios.end(), 0.0),
            0.98 * static_cast<double>(ratios.size()));
}

// Requests come and go, on costs at which no draft pays for 16 of them.
TEST(GoodputPolicyTest, TheDrafterIsDormantWhileItDoesNotPay) {
  const SimulatedBatch batch{
      .requests = 16, .quality = {kLow}, .tokens_each = 100};
  SimulatedDecoding decoding(Cpu(), batch, /*seed=*/5);
  const auto policy = Goodput(decoding);
  decoding.Run(*policy, 300);
  decoding.ForgetChosen();
  decoding.Run(*policy, 2000);

  std::printf("followed %d of %d, off %d, chain %d, tree %d\n",
              decoding.num_followed(), decoding.num_arrivals(),
              decoding.chosen()[0], decoding.chosen()[1], decoding.chosen()[2]);
  EXPECT_GE(decoding.num_arrivals(), 200);
  EXPECT_GE(decoding.num_followed(), 1);
  EXPECT_LE(decoding.num_followed(), decoding.num_arrivals() / 2);
}

INSTANTIATE_TEST_SUITE_P(Costs, GoodputChangeTest,
                         ::testing::Values(Dense(), Steps(), Experts(), Cpu()),
                         [](const auto& costs) { return costs.param.name; });

INSTANTIATE_TEST_SUITE_P(Costs, GoodputOracleTest,
                         ::testing::Values(Dense(), Steps(), Experts(), Cpu()),
                         [](const auto& costs) { return costs.param.name; });

}  // namespace
}  // namespace bole
