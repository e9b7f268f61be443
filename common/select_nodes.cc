#include "common/select_nodes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/check.h"

namespace bole {
namespace {

// Smaller for a likelier node. log_rho is never positive, and the bits of
// floats that are not negative, read as integers, are in the floats' order.
using Rank = uint32_t;

// Behind every node's rank, that of -inf included.
constexpr Rank kOut = ~Rank{0};

Rank RankOf(float log_rho) { return std::bit_cast<Rank>(0.0f - log_rho); }

// The best are those below `rank`, and the first `ties` of those at it.
struct Border {
  Rank rank;
  size_t ties;
};

// The border of the best `count`. REQUIRES: count < ranks.size().
//
// Many ranks are counted by their upper bits, and only those that share them
// with the border are compared; for few of them the counters would cost more.
// COST: O(n).
Border FindBorder(std::span<const Rank> ranks, size_t count) {
  constexpr size_t kFewRanks = 512;
  constexpr int kShift = 20;
  size_t below = 0;
  std::vector<Rank> near;
  if (ranks.size() <= kFewRanks) {
    near.assign(ranks.begin(), ranks.end());
  } else {
    std::array<uint32_t, size_t{1} << (32 - kShift)> bins = {};
    for (const Rank rank : ranks) ++bins[rank >> kShift];
    size_t bin = 0;
    while (below + bins[bin] <= count) below += bins[bin++];
    near.reserve(bins[bin]);
    for (const Rank rank : ranks) {
      if (rank >> kShift == bin) near.push_back(rank);
    }
  }
  const auto border = near.begin() + static_cast<std::ptrdiff_t>(count - below);
  std::nth_element(near.begin(), border, near.end());
  const auto is_less = [rank = *border](Rank other) { return other < rank; };
  below += std::count_if(near.begin(), border, is_less);
  return {.rank = *border, .ties = count - below};
}

// Whether the next node, of rank `rank`, is among the best.
bool IsBest(Rank rank, Border& border) {
  if (rank != border.rank) return rank < border.rank;
  if (border.ties == 0) return false;
  --border.ties;
  return true;
}

// The ranks of all nodes but the roots, tree after tree. A tree's best are also
// the best of its part of the whole, so its limit is applied here: nodes beyond
// it get kOut. Returns how many are not out.
size_t RankAll(std::span<const ProposalTree> trees, size_t most_per_tree,
               std::vector<Rank>& ranks) {
  size_t num_out = 0;
  for (const ProposalTree& tree : trees) {
    const size_t first = ranks.size();
    const size_t count = tree.log_rho.size() - 1;
    for (size_t i = 1; i <= count; ++i) {
      ranks.push_back(RankOf(tree.log_rho[i]));
    }
    if (count <= most_per_tree) continue;
    const std::span own = std::span(ranks).subspan(first);
    Border border = FindBorder(own, most_per_tree);
    for (Rank& rank : own) {
      if (!IsBest(rank, border)) rank = kOut;
    }
    num_out += count - most_per_tree;
  }
  return ranks.size() - num_out;
}

}  // namespace

std::vector<NodeRef> SelectNodes(std::span<const ProposalTree> trees,
                                 int budget, int max_nodes_per_tree) {
  BOLE_CHECK(budget >= std::ssize(trees));
  BOLE_CHECK(max_nodes_per_tree >= 1);
  size_t num_nodes = 0;
  for (const ProposalTree& tree : trees) num_nodes += tree.log_rho.size();
  std::vector<Rank> ranks;
  ranks.reserve(num_nodes - trees.size());
  const size_t num_left =
      RankAll(trees, static_cast<size_t>(max_nodes_per_tree) - 1, ranks);
  const size_t count =
      std::min(static_cast<size_t>(budget) - trees.size(), num_left);
  Border border = {.rank = kOut, .ties = 0};
  if (count < num_left) border = FindBorder(ranks, count);

  std::vector<NodeRef> selected;
  selected.reserve(count + trees.size());
  auto rank = ranks.begin();
  for (int t = 0; t < std::ssize(trees); ++t) {
    selected.push_back({t, 0});
    for (int i = 1; i < trees[t].size(); ++i) {
      if (IsBest(*rank++, border)) selected.push_back({t, i});
    }
  }
  return selected;
}

}  // namespace bole
