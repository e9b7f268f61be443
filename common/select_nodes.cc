#include "common/select_nodes.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/check.h"

namespace bole {
namespace {

// A number that is smaller for the node to be taken first: the likelier one,
// then the earlier one. No log_rho is above 0, so the bits of what it lacks
// grow with that.
using Rank = uint64_t;

Rank RankOf(float log_rho, uint32_t node) {
  return Rank{std::bit_cast<uint32_t>(0.0f - log_rho)} << 32 | node;
}

uint32_t NodeOf(Rank rank) { return static_cast<uint32_t>(rank); }

// Keeps the best `count` of candidates[first ..), in their order.
void KeepBest(std::vector<Rank>& candidates, size_t first, size_t count) {
  if (candidates.size() - first <= count) return;
  const auto begin = candidates.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<Rank> sorted(begin, candidates.end());
  const auto first_out = sorted.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(sorted.begin(), first_out, sorted.end());
  const auto is_out = [out = *first_out](Rank rank) { return rank >= out; };
  candidates.erase(std::remove_if(begin, candidates.end(), is_out),
                   candidates.end());
}

}  // namespace

std::vector<NodeRef> SelectNodes(std::span<const ProposalTree> trees,
                                 int budget, int max_nodes_per_tree) {
  BOLE_CHECK(budget >= std::ssize(trees));
  BOLE_CHECK(max_nodes_per_tree >= 1);
  size_t num_nodes = 0;
  for (const ProposalTree& tree : trees) num_nodes += tree.size();
  std::vector<Rank> candidates;
  candidates.reserve(num_nodes);
  uint32_t root = 0;  // Nodes are numbered through the trees here.
  for (const ProposalTree& tree : trees) {
    // A tree's best are also the best of its part of the whole, so its limit
    // can be applied first.
    const size_t first = candidates.size();
    for (int i = 1; i < tree.size(); ++i) {
      candidates.push_back(RankOf(tree.log_rho[i], root + i));
    }
    KeepBest(candidates, first, static_cast<size_t>(max_nodes_per_tree) - 1);
    root += tree.size();
  }
  KeepBest(candidates, 0, static_cast<size_t>(budget) - trees.size());

  std::vector<NodeRef> selected;
  selected.reserve(candidates.size() + trees.size());
  auto next = candidates.begin();
  root = 0;
  for (int t = 0; t < std::ssize(trees); ++t) {
    selected.push_back({t, 0});
    const uint32_t end = root + trees[t].size();
    for (; next != candidates.end() && NodeOf(*next) < end; ++next) {
      selected.push_back({t, static_cast<int>(NodeOf(*next) - root)});
    }
    root = end;
  }
  return selected;
}

}  // namespace bole
