#include "common/expected_acceptance.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>

namespace bole {

RankChances HalvingChances(double first, int count) {
  std::vector<double> ranks = {first};
  double next = std::min(first, 1 - first) / 2;
  while (std::ssize(ranks) < count) {
    ranks.push_back(next);
    next /= 2;
  }
  return {std::move(ranks)};
}

std::vector<double> ExpectedDrafts(const RankChances& chances,
                                   const DraftShape& shape) {
  const auto top_k = static_cast<size_t>(shape.top_k);
  // The chance that the target reaches each candidate.
  std::vector<double> reached;
  // The same for the nodes that the next level expands.
  std::vector<double> frontier = {1};
  for (size_t level = 0; level < static_cast<size_t>(shape.depth); ++level) {
    const std::vector<double>& ranks =
        chances[std::min(level, chances.size() - 1)];
    std::vector<double> children;
    for (const double parent : frontier) {
      for (size_t r = 0; r < top_k; ++r) {
        children.push_back(r < ranks.size() ? parent * ranks[r] : 0);
      }
    }
    reached.insert(reached.end(), children.begin(), children.end());
    std::sort(children.begin(), children.end(), std::greater<>());
    children.resize(std::min(children.size(), top_k));
    frontier = std::move(children);
  }
  // A node is accepted if it is reached, and never likelier than its parent:
  // the likeliest ones are connected, and no other choice brings more.
  std::sort(reached.begin(), reached.end(), std::greater<>());
  std::vector<double> expected = {0};
  for (const double chance : reached) {
    expected.push_back(expected.back() + chance);
  }
  return expected;
}

double FitFirstChance(double mean_tokens, const DraftShape& shape, int nodes) {
  constexpr int kSteps = 40;
  const auto drafts =
      static_cast<size_t>(std::min(nodes - 1, shape.num_candidates()));
  double low = 0;
  double high = 1;
  for (int i = 0; i < kSteps; ++i) {
    const double first = (low + high) / 2;
    const double expected =
        ExpectedDrafts(HalvingChances(first, shape.top_k), shape)[drafts];
    (1 + expected < mean_tokens ? low : high) = first;
  }
  return (low + high) / 2;
}

}  // namespace bole
