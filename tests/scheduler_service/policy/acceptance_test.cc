#include "scheduler_service/policy/acceptance.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "gtest/gtest.h"
#include "scheduler_service/policy/draft_forecast.h"
#include "scheduler_service/policy/request_acceptance.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {
namespace {

// A root with a chain below it, each node as likely as the one before.
ProposalTree Chain(int depth, double chance) {
  ProposalTree tree{.parent = {kNoParent}, .token = {0}, .log_rho = {0}};
  for (int i = 0; i < depth; ++i) {
    tree.parent.push_back(i);
    tree.token.push_back(i + 1);
    tree.log_rho.push_back(tree.log_rho.back() +
                           static_cast<float>(std::log(chance)));
  }
  return tree;
}

// Verifies whole chains that are right with `chance` at each level.
class Chains {
 public:
  explicit Chains(ProposalTree tree) : tree_(std::move(tree)) {
    for (int i = 0; i < tree_.size(); ++i) selected_.push_back(i);
  }
  template <typename Observer>
  void Run(int rounds, double chance, const Observer& observe) {
    std::bernoulli_distribution is_right(chance);
    for (int i = 0; i < rounds; ++i) {
      std::vector<int32_t> emitted;
      while (std::ssize(emitted) + 1 < tree_.size() && is_right(rng_)) {
        emitted.push_back(static_cast<int32_t>(emitted.size()) + 1);
      }
      const int accepted = static_cast<int>(emitted.size());
      emitted.push_back(100);
      observe(TreeReport{.tree = tree_,
                         .selected = selected_,
                         .emitted = emitted,
                         .accepted = accepted});
    }
  }

 private:
  const ProposalTree tree_;
  std::vector<int32_t> selected_;
  std::mt19937 rng_{1};
};

TEST(AcceptanceTest, BelievesTheDrafterAtFirst) {
  const Acceptance acceptance;
  for (const double rho : {0.9, 0.5, 0.1}) {
    const int bin = Acceptance::BinOf(static_cast<float>(std::log(rho)));
    EXPECT_NEAR(acceptance.ValueOf(1, bin), rho, 0.02 * rho);
  }
}

TEST(AcceptanceTest, LearnsWhereTheDrafterIsTooSure) {
  Acceptance acceptance;
  Chains chains(Chain(/*depth=*/3, /*chance=*/0.9));
  chains.Run(1000, /*chance=*/0.6, [&](const TreeReport& report) {
    acceptance.Observe(report);
    acceptance.EndRound();
  });
  const auto value_at = [&](int depth) {
    return acceptance.ValueOf(
        depth, Acceptance::BinOf(static_cast<float>(depth * std::log(0.9))));
  };

  EXPECT_NEAR(value_at(1), 0.6, 0.06);
  EXPECT_NEAR(value_at(2), 0.36, 0.06);
  EXPECT_NEAR(value_at(3), 0.216, 0.06);
  EXPECT_LT(acceptance.ratio(), 0.6);
}

TEST(AcceptanceTest, AGainIsTheSumOfTheLikeliestNodes) {
  const Acceptance acceptance;
  const std::vector<ProposalTree> trees = {Chain(2, 0.9), Chain(2, 0.5)};
  RequestAcceptance poor;
  for (int i = 0; i < 100; ++i) poor.Observe(/*promised=*/2, /*accepted=*/1);
  const std::vector<SequenceView> alike(2);
  const std::vector<SequenceView> mixed = {{}, {.acceptance = &poor}};
  const GainCurve curve({.sequences = alike, .trees = trees}, acceptance);
  const GainCurve with_poor({.sequences = mixed, .trees = trees}, acceptance);

  EXPECT_EQ(curve.num_drafts(), 4);
  EXPECT_EQ(curve.At(0), 0);
  EXPECT_NEAR(curve.At(1), 0.9, 0.02);
  EXPECT_NEAR(curve.At(2), 0.9 + 0.81, 0.04);
  EXPECT_NEAR(curve.At(4), 0.9 + 0.81 + 0.5 + 0.25, 0.06);
  EXPECT_NEAR(curve.LastOf(3), 0.5, 0.02);
  EXPECT_NEAR(poor.factor(), 0.5, 0.2);
  EXPECT_NEAR(with_poor.At(4) - with_poor.At(2), 0.75 * poor.factor(), 0.03);
}

TEST(RequestAcceptanceTest, ReturnsToOneWhileNothingIsSeen) {
  RequestAcceptance request;
  for (int i = 0; i < 50; ++i) request.Observe(/*promised=*/4, /*accepted=*/0);
  EXPECT_LT(request.factor(), 0.3);
  for (int i = 0; i < 200; ++i) request.Forget();
  EXPECT_NEAR(request.factor(), 1, 0.05);
}

TEST(DraftForecastTest, ExpectsEnoughToTryAtFirst) {
  DraftForecast forecast;
  EXPECT_GT(forecast.Gain({.top_k = 1, .depth = 8}, 9), 2);
  EXPECT_GT(forecast.Gain({.top_k = 4, .depth = 8}, 33),
            forecast.Gain({.top_k = 1, .depth = 8}, 9));
  EXPECT_EQ(forecast.Gain({.top_k = 1, .depth = 8}, 1), 0);
}

TEST(DraftForecastTest, LearnsWhatAChainBringsAndUnlearnsIt) {
  DraftForecast forecast;
  Chains chains(Chain(/*depth=*/8, /*chance=*/0.9));
  const auto observe = [&](const TreeReport& report) {
    forecast.Observe(report);
  };
  const auto expected = [](double chance, int depth) {
    return chance * (1 - std::pow(chance, depth)) / (1 - chance);
  };

  chains.Run(1000, /*chance=*/0.8, observe);
  EXPECT_NEAR(forecast.Gain({.top_k = 1, .depth = 8}, 9), expected(0.8, 8),
              0.5);
  EXPECT_NEAR(forecast.Gain({.top_k = 1, .depth = 3}, 4), expected(0.8, 3),
              0.2);
  forecast.Doubt();
  chains.Run(60, /*chance=*/0.3, observe);
  EXPECT_LT(forecast.Gain({.top_k = 1, .depth = 3}, 4), 0.9);
}

TEST(DraftForecastTest, TheBestOfContextsThatDifferBringMore) {
  DraftForecast forecast;
  Chains chains(Chain(/*depth=*/3, /*chance=*/0.5));
  chains.Run(200, /*chance=*/0.5,
             [&](const TreeReport& report) { forecast.Observe(report); });
  const DraftShape chain{.top_k = 1, .depth = 3};
  const double alike = forecast.Gain(chain, 2);
  for (int i = 0; i < 50; ++i) {
    forecast.ObserveGain(chain, 2, 1.4 * alike, /*requests=*/8);
  }

  EXPECT_NEAR(forecast.Gain(chain, 2), 1.4 * alike, 0.05);
}

}  // namespace
}  // namespace bole
