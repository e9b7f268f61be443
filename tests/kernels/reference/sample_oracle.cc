#include "tests/kernels/reference/sample_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/gumbel.h"

namespace bole::testing {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double WithoutNan(double x) { return std::isnan(x) ? kImpossible : x; }

// Tokens by probability, the lower id first among equals.
std::vector<int> LikeliestFirst(const std::vector<double>& p) {
  std::vector<int> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return p[a] > p[b]; });
  return order;
}

void Normalize(std::vector<double>& p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
}

}  // namespace

std::vector<double> AdjustedLogits(
    std::span<const float> logits, const SamplingControl& control,
    const std::vector<std::pair<int32_t, float>>& bias,
    const std::vector<int32_t>& history) {
  std::vector<double> adjusted;
  for (int v = 0; v < std::ssize(logits); ++v) {
    double z = WithoutNan(logits[v]);
    for (const auto& [token, value] : bias) z += token == v ? value : 0;
    const auto output =
        history.begin() +
        std::min<std::ptrdiff_t>(control.prompt_length, std::ssize(history));
    if (std::find(history.begin(), history.end(), v) != history.end()) {
      z *=
          z > 0 ? 1.0 / control.repetition_penalty : control.repetition_penalty;
    }
    const auto times = std::count(output, history.end(), v);
    z -= control.frequency_penalty * static_cast<double>(times);
    if (times > 0) z -= control.presence_penalty;
    adjusted.push_back(z);
  }
  return adjusted;
}

std::vector<double> FilteredDistribution(const std::vector<double>& logits,
                                         const SamplingControl& control) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  if (control.temperature == 0 || max == kImpossible) {
    p[LikeliestFirst(logits)[0]] = 1;
    return p;
  }
  for (size_t v = 0; v < p.size(); ++v) {
    p[v] = std::exp((logits[v] - max) / control.temperature);
  }
  Normalize(p);
  const std::vector<int> order = LikeliestFirst(p);
  if (control.top_k > 0 && control.top_k < std::ssize(p)) {
    const double kth = p[order[control.top_k - 1]];
    for (double& x : p) x = x >= kth ? x : 0;
    Normalize(p);
  }
  if (control.top_p < 1) {
    double before = 0;
    for (const int v : order) {
      const double own = p[v];
      if (before >= control.top_p) p[v] = 0;
      before += own;
    }
    Normalize(p);
  }
  const double least = control.min_p * p[order[0]];
  for (double& x : p) x = x >= least ? x : 0;
  Normalize(p);
  return p;
}

int32_t OracleDraw(const std::vector<double>& distribution,
                   const SamplingControl& control, int position) {
  double best = kImpossible;
  int32_t drawn = 0;
  for (int v = 0; v < std::ssize(distribution); ++v) {
    if (distribution[v] == 0) continue;
    double score = std::log(distribution[v]);
    if (control.temperature > 0) {
      score += GumbelNoise(control.seed, position, v);
    }
    if (score > best) {
      best = score;
      drawn = v;
    }
  }
  return drawn;
}

std::vector<double> OracleLogProbs(std::span<const float> logits) {
  double sum = 0;
  for (const float z : logits) sum += std::exp(WithoutNan(z));
  std::vector<double> log_probs;
  for (const float z : logits) {
    log_probs.push_back(WithoutNan(z) - std::log(sum));
  }
  return log_probs;
}

}  // namespace bole::testing
