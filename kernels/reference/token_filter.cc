#include "kernels/reference/token_filter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace bole::reference {
namespace {

// The weights of tokens, relative to the likeliest.
struct Weights {
  double max;
  double temperature;

  double of(double logit) const {
    return std::exp((logit - max) / temperature);
  }
  // The logit that has this weight.
  double logit_of(double weight) const {
    return max + temperature * std::log(weight);
  }
};

// REQUIRES: 1 <= k <= V.
float KthLargest(std::span<const float> logits, int k) {
  // The k largest so far, the smallest of them in front.
  std::vector<float> heap(logits.begin(), logits.begin() + k);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  for (const float logit : logits.subspan(k)) {
    if (logit <= heap.front()) continue;
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.back() = logit;
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return heap.front();
}

// The shortest prefix, in the order of IsBetter, with p of the whole weight; at
// least one token.
void KeepTopP(const Weights& weights, double p,
              std::vector<TokenLogit>& tokens) {
  double total = 0;
  for (const TokenLogit& t : tokens) total += weights.of(t.logit);

  // Tokens lighter than (1 - p) / n of the whole weigh less than 1 - p
  // together, so the prefix ends before the first of them. Half of that leaves
  // no doubt about rounding, and in practice few tokens for the heap.
  const double lightest =
      (1 - p) / 2 * total / static_cast<double>(tokens.size());
  const double lowest = weights.logit_of(lightest);
  std::erase_if(tokens,
                [lowest](const TokenLogit& t) { return t.logit < lowest; });

  // A heap has its "largest" in front: the best, so worse is "less".
  const auto is_worse = [](const TokenLogit& a, const TokenLogit& b) {
    return IsBetter(b, a);
  };
  std::make_heap(tokens.begin(), tokens.end(), is_worse);
  auto first_kept = tokens.end();
  double kept = 0;
  while (first_kept != tokens.begin()) {
    std::pop_heap(tokens.begin(), first_kept, is_worse);
    --first_kept;
    kept += weights.of(first_kept->logit);
    if (kept >= p * total) break;
  }
  tokens.erase(tokens.begin(), first_kept);
}

}  // namespace

std::vector<TokenLogit> FilterTokens(std::span<const float> logits, float max,
                                     const SamplingControl& control) {
  float lowest = std::numeric_limits<float>::lowest();
  if (control.top_k > 0 && control.top_k < std::ssize(logits)) {
    lowest = std::max(lowest, KthLargest(logits, control.top_k));
  }
  std::vector<TokenLogit> tokens;
  for (int32_t token = 0; token < std::ssize(logits); ++token) {
    if (logits[token] >= lowest) tokens.push_back({logits[token], token});
  }
  const Weights weights{max, control.temperature};
  if (control.top_p < 1) KeepTopP(weights, control.top_p, tokens);
  if (control.min_p > 0) {
    std::erase_if(tokens, [&](const TokenLogit& t) {
      return weights.of(t.logit) < control.min_p;
    });
  }
  return tokens;
}

}  // namespace bole::reference
