#include "worker_service/model/markov_chain.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/check.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"

namespace bole {
namespace {

// probability[m] falls as (m + 1)^-exponent.
std::array<double, kSuccessors> PowerLaw(double exponent) {
  std::array<double, kSuccessors> p;
  double sum = 0;
  for (int m = 0; m < kSuccessors; ++m) {
    sum += p[m] = std::pow(m + 1.0, -exponent);
  }
  for (double& x : p) x /= sum;
  return p;
}

double Entropy(const std::array<double, kSuccessors>& p) {
  double entropy = 0;
  for (const double x : p) entropy -= x * std::log(x);
  return entropy;
}

// t -> a t + c mod A visits every token before the first again if c is coprime
// to A, and a - 1 is a multiple of every prime factor of A and of 4 if A is.
int64_t MultiplierStep(int num_tokens) {
  int64_t step = num_tokens % 4 == 0 ? 2 : 1;
  int rest = num_tokens;
  for (int prime = 2; rest > 1; ++prime) {
    if (rest % prime != 0) continue;
    step *= prime;
    while (rest % prime == 0) rest /= prime;
  }
  return step;
}

struct Draft {
  int32_t successor;  // m
  float log_prob;
};

// What a noisy drafter takes for the `top_k` likeliest successors, best first.
std::vector<Draft> DraftChildren(const MarkovChain& chain, double noise,
                                 int top_k, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, noise > 0 ? noise : 1);
  std::vector<Draft> drafts;
  drafts.reserve(kSuccessors);
  double sum = 0;
  for (int m = 0; m < kSuccessors; ++m) {
    const double error = noise > 0 ? normal(random) : 0;
    const double logit = std::log(chain.probability[m]) + error;
    sum += std::exp(logit);
    drafts.push_back({m, static_cast<float>(logit)});
  }
  std::stable_sort(
      drafts.begin(), drafts.end(),
      [](const Draft& a, const Draft& b) { return a.log_prob > b.log_prob; });
  drafts.resize(std::min<size_t>(top_k, drafts.size()));
  for (Draft& draft : drafts) {
    draft.log_prob =
        std::min(0.0f, draft.log_prob - static_cast<float>(std::log(sum)));
  }
  return drafts;
}

// As the drafter grows it (EAGLE-2); a node's token is its successor number.
ProposalTree GrowTree(const MarkovChain& chain, double noise,
                      const DraftShape& shape, std::mt19937_64& random) {
  ProposalTree tree{.parent = {kNoParent}, .token = {0}, .log_rho = {0}};
  std::vector<int> frontier = {0};
  for (int level = 0; level < shape.depth; ++level) {
    const int first = tree.size();
    for (const int parent : frontier) {
      for (const Draft& draft :
           DraftChildren(chain, noise, shape.top_k, random)) {
        tree.parent.push_back(parent);
        tree.token.push_back(draft.successor);
        tree.log_rho.push_back(tree.log_rho[parent] + draft.log_prob);
      }
    }
    frontier.resize(tree.size() - first);
    std::iota(frontier.begin(), frontier.end(), first);
    std::stable_sort(frontier.begin(), frontier.end(), [&](int a, int b) {
      return tree.log_rho[a] > tree.log_rho[b];
    });
    frontier.resize(std::min<size_t>(shape.top_k, frontier.size()));
  }
  return tree;
}

// Tokens of a greedy round: the selected nodes of successor 0 in a row, and the
// one after them.
int AcceptedTokens(const ProposalTree& tree, int nodes) {
  std::vector<bool> is_selected(tree.size());
  for (const NodeRef ref : SelectNodes({&tree, 1}, nodes)) {
    is_selected[ref.node] = true;
  }
  int accepted = 1;
  int at = 0;
  for (int i = 1; i < tree.size(); ++i) {
    if (tree.parent[i] != at || tree.token[i] != 0 || !is_selected[i]) continue;
    at = i;
    ++accepted;
  }
  return accepted;
}

}  // namespace

MarkovChain MakeMarkovChain(int num_tokens, double entropy, uint64_t seed) {
  BOLE_CHECK(num_tokens > 0 && num_tokens % kSuccessors == 0);
  BOLE_CHECK(entropy >= kMinEntropy && entropy <= kMaxEntropy);
  double low = 0;  // An exponent of too much entropy, and one of too little.
  double high = 64;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (Entropy(PowerLaw(middle)) > entropy ? low : high) = middle;
  }
  std::mt19937_64 random(seed);
  const int64_t step = MultiplierStep(num_tokens);
  const uint64_t choices = std::max<int64_t>(1, (num_tokens - 1) / step);
  const auto multiplier = static_cast<uint32_t>(
      1 + step * static_cast<int64_t>(random() % choices));
  uint32_t increment = 1;
  do {
    increment = static_cast<uint32_t>(random() % num_tokens);
  } while (std::gcd(increment, static_cast<uint32_t>(num_tokens)) != 1);
  return {.num_tokens = num_tokens,
          .multiplier = multiplier,
          .increment = increment,
          .probability = PowerLaw(low)};
}

double MeanAcceptedTokens(const MarkovChain& chain, double noise,
                          const VerifiedTree& tree, int rounds) {
  std::mt19937_64 random(1);
  int64_t total = 0;
  for (int i = 0; i < rounds; ++i) {
    total +=
        AcceptedTokens(GrowTree(chain, noise, tree.shape, random), tree.nodes);
  }
  return static_cast<double>(total) / rounds;
}

double NoiseForAcceptance(const MarkovChain& chain, double accept,
                          const VerifiedTree& tree) {
  constexpr int kRounds = 3000;  // A mean's deviation is then 0.05 at most.
  constexpr int kHalvings = 12;
  double low = 0;
  double high = kMaxDraftNoise;
  if (MeanAcceptedTokens(chain, low, tree, kRounds) <= accept) return low;
  if (MeanAcceptedTokens(chain, high, tree, kRounds) >= accept) return high;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const double mean = MeanAcceptedTokens(chain, middle, tree, kRounds);
    (mean > accept ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace bole
