#include "worker_service/model/markov_chain.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.h"

namespace bole {
namespace {

using Probabilities = std::array<double, kSuccessors>;

constexpr int kMaxPassages = 16;
constexpr int kStretchesOfPassage = 4;  // The fewest.

// With these constants, the chain's acceptance matches that of the demo model
// on real prompts (tests/bench/profile/README.md).
// The standard deviation of the logarithm of the noise over stretches.
constexpr double kLogNoiseDeviation = 0.32;
// The share of the variance of difficulty that belongs to passages.
constexpr double kPassageShare = 0.8;
constexpr double kBranchShare = 1.0 / 32;
constexpr double kHalfLostNoise = 8;  // The noise at which half are lost.

// probability[m] falls as (m + 1)^-exponent.
Probabilities PowerLaw(double exponent) {
  Probabilities p;
  double sum = 0;
  for (int m = 0; m < kSuccessors; ++m) {
    sum += p[m] = std::pow(m + 1.0, -exponent);
  }
  for (double& x : p) x /= sum;
  return p;
}

double Entropy(const Probabilities& p) {
  double entropy = 0;
  for (const double x : p) entropy -= x * std::log(x);
  return entropy;
}

double ExponentOf(double entropy) {
  double low = 0;    // This exponent gives too much entropy,
  double high = 64;  // and this one too little.
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (Entropy(PowerLaw(middle)) > entropy ? low : high) = middle;
  }
  return low;
}

// The Walsh transform of the log probabilities, without coefficient 0, which is
// the mean.
Probabilities Coefficients(const Probabilities& p) {
  Probabilities coefficient = {};
  for (int k = 1; k < kSuccessors; ++k) {
    for (int m = 0; m < kSuccessors; ++m) {
      coefficient[k] += Walsh(k, m) * std::log(p[m]);
    }
  }
  return coefficient;
}

void SetRanks(MarkovChain& chain) {
  Probabilities branch = chain.probability;
  branch[0] = branch[1] = (branch[0] + branch[1]) / 2;
  const Probabilities coefficient = Coefficients(chain.probability);
  chain.rank_scale =
      std::sqrt(std::inner_product(coefficient.begin(), coefficient.end(),
                                   coefficient.begin(), 0.0) /
                (kSuccessors - 1));
  const auto fixed = [&](double x) {
    return static_cast<int32_t>(std::lround(x / chain.rank_scale * kTextUnit));
  };
  const Probabilities of_branch = Coefficients(branch);
  for (int k = 1; k < kSuccessors; ++k) {
    chain.code.rank[k] = fixed(coefficient[k]);
    chain.code.branch_rank[k] = fixed(of_branch[k]);
  }
  // Coefficient 0 adds the same to every token's logit.
  chain.code.rank[0] = chain.code.branch_rank[0] = kTextUnit;
  chain.mean_log_probability = 0;
  for (const double p : chain.probability) {
    chain.mean_log_probability += std::log(p) / kSuccessors;
  }
}

// `share` of 2^32.
uint32_t ShareOfWords(double share) {
  return static_cast<uint32_t>(std::min(share * 4294967296.0, 4294967295.0));
}

}  // namespace

MarkovChain MakeMarkovChain(const TextOptions& options) {
  BOLE_CHECK(options.num_tokens > 0 &&
             options.num_tokens % kStretchTokens == 0);
  BOLE_CHECK(options.entropy >= kMinEntropy && options.entropy <= kMaxEntropy);
  BOLE_CHECK(options.spread >= 0 && options.spread <= kMaxSpread);
  // With this, the sum of two weighted bells has a standard deviation of 2^17
  // (LevelOf()).
  constexpr double kWeight = 131072 * double{kBellScale};
  MarkovChain chain{.options = options,
                    .code = {},
                    .probability = PowerLaw(ExponentOf(options.entropy)),
                    .rank_scale = 0,
                    .mean_log_probability = 0};
  const int stretches = options.num_tokens / kStretchTokens;
  MarkovCode& code = chain.code;
  code.seed = options.seed;
  code.num_tokens = options.num_tokens;
  code.stretch = kStretchGroups;
  code.passages = std::clamp(stretches / kStretchesOfPassage, 1, kMaxPassages);
  code.passage_weight =
      static_cast<int32_t>(kWeight * std::sqrt(kPassageShare));
  code.stretch_weight =
      static_cast<int32_t>(kWeight * std::sqrt(1 - kPassageShare));
  code.branches = options.spread > 0 ? ShareOfWords(kBranchShare) : 0;
  SetRanks(chain);
  SetDraftNoise(0, chain);
  return chain;
}

void SetDraftNoise(double noise, MarkovChain& chain) {
  BOLE_CHECK(noise >= 0 && noise <= kMaxDraftNoise);
  for (int i = 0; i < kTextLevels; ++i) {
    const double difficulty = (i - (kTextLevels - 1) / 2.0) / 2;
    const double of_level = noise * std::exp(chain.options.spread *
                                             kLogNoiseDeviation * difficulty);
    // Each of seven coefficients has this noise, where their rms is 1.
    const double of_rank = of_level * kSuccessors /
                           (chain.rank_scale * std::sqrt(kSuccessors - 1.0));
    // The factor that shrinks a value of deviation 1 that is known with this
    // noise.
    const double keep = 1 / (1 + of_rank * of_rank);
    const double square = of_level * of_level;
    chain.code.levels[i] = {
        .lost =
            ShareOfWords(square / (square + kHalfLostNoise * kHalfLostNoise)),
        .keep = static_cast<int32_t>(std::lround(keep * kTextUnit)),
        .noise = static_cast<int32_t>(std::lround(
            keep * of_rank * double{kBellScale} * kTextUnit * kTextUnit))};
  }
}

std::vector<int32_t> ListedTokens(const MarkovChain& chain, double share) {
  const int groups = chain.options.num_tokens / kSuccessors;
  std::vector<uint32_t> order(groups);
  std::iota(order.begin(), order.end(), 0);
  const auto random = [&](uint32_t group) {
    return DrawText(chain.code, TextDraw::kFate, group * kSuccessors).word[3];
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return random(a) != random(b) ? random(a) < random(b) : a < b;
  });
  order.resize(groups - std::lround(share * groups));
  std::sort(order.begin(), order.end());
  std::vector<int32_t> tokens;
  tokens.reserve(order.size() * kSuccessors);
  for (const uint32_t group : order) {
    for (int m = 0; m < kSuccessors; ++m) {
      tokens.push_back(static_cast<int32_t>(group * kSuccessors) + m);
    }
  }
  return tokens;
}

}  // namespace bole
