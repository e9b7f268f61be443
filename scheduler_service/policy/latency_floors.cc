#include "scheduler_service/policy/latency_floors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

namespace bole {
namespace {

// The chances that a tree's nodes are accepted, the largest first.
std::vector<double> ValuesOf(const ProposalTree& tree, const SequenceView& of,
                             const Acceptance* acceptance) {
  std::vector<double> values;
  const std::vector<int> depths = DepthsOf(tree);
  const double factor = acceptance != nullptr && of.acceptance != nullptr
                            ? of.acceptance->factor()
                            : 1;
  for (int i = 1; i < tree.size(); ++i) {
    values.push_back(
        acceptance == nullptr
            ? std::exp(tree.log_rho[i])
            : factor * acceptance->ValueOf(depths[i],
                                           Acceptance::BinOf(tree.log_rho[i])));
  }
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

// The least number of nodes that are expected to bring `needed` tokens; 0 if
// even all are too few.
int NodesFor(double needed, const std::vector<double>& values, int cap) {
  double tokens = 1;
  int nodes = 1;
  for (const double value : values) {
    if (tokens >= needed || nodes == cap) break;
    tokens += value;
    ++nodes;
  }
  return tokens >= needed ? nodes : 0;
}

}  // namespace

double TokensNeeded(const SequenceView& of, double round_seconds) {
  if (of.seconds_per_token <= 0) return 0;
  return (of.seconds_since_first + round_seconds) / of.seconds_per_token -
         of.tokens_since_first;
}

std::vector<TreeBounds> FloorsFor(const RoundView& view, double round_seconds,
                                  int budget, int cap,
                                  const Acceptance* acceptance) {
  std::vector<TreeBounds> bounds(view.trees.size(), {.cap = cap});
  std::vector<std::pair<int, size_t>> wanted;  // Nodes, and the tree.
  for (size_t b = 0; b < view.trees.size(); ++b) {
    const double needed = TokensNeeded(view.sequences[b], round_seconds);
    if (needed <= 1) continue;
    const int nodes = NodesFor(
        needed, ValuesOf(view.trees[b], view.sequences[b], acceptance), cap);
    if (nodes > 1) wanted.emplace_back(nodes, b);
  }
  std::sort(wanted.begin(), wanted.end());
  int left = budget - static_cast<int>(view.trees.size());
  for (const auto& [nodes, b] : wanted) {
    if (nodes - 1 > left) break;
    left -= nodes - 1;
    bounds[b].floor = nodes;
  }
  return bounds;
}

}  // namespace bole
