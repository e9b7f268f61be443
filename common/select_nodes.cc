#include "common/select_nodes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/check.h"

namespace bole {
namespace {

// Smaller for a likelier node. log_rho is never positive, and the bits of
// floats that are not negative, read as integers, are in the floats' order.
using Rank = uint32_t;

// Before every other rank: a node that belongs to the floor of its tree.
constexpr Rank kOwed = 0;

// Behind every node's rank, that of -inf included.
constexpr Rank kOut = ~Rank{0};

Rank RankOf(float log_rho) { return 1 + std::bit_cast<Rank>(0.0f - log_rho); }

// The best are those below `rank`, and the first `ties` of those at it.
struct Border {
  Rank rank;
  size_t ties;
};

// The border of the best `count`. REQUIRES: count < ranks.size().
//
// Ranks are counted in bins of equal width between the least and the largest of
// them, with what is owed in the first bin, and what is impossible or out in
// the last; only those in the bin of the border are compared.
// COST: O(n + kBins).
template <int kBins>
Border FindBorder(std::span<const Rank> ranks, size_t count) {
  const Rank impossible = RankOf(-std::numeric_limits<float>::infinity());
  Rank least = kOut;
  Rank most = 0;
  for (const Rank rank : ranks) {
    least = std::min(least, rank == kOwed ? kOut : rank);
    most = std::max(most, rank < impossible ? rank : 0);
  }
  const Rank width = most > least ? (most - least) / kBins + 1 : 1;
  const int shift = std::bit_width(width - 1);
  const auto bin_of = [=](Rank rank) {
    return std::min<Rank>((std::max(rank, least) - least) >> shift, kBins - 1);
  };
  std::array<uint32_t, kBins> bins = {};
  for (const Rank rank : ranks) ++bins[bin_of(rank)];
  size_t below = 0;
  Rank bin = 0;
  while (below + bins[bin] <= count) below += bins[bin++];

  std::vector<Rank> near;
  near.reserve(bins[bin]);
  for (const Rank rank : ranks) {
    if (bin_of(rank) == bin) near.push_back(rank);
  }
  const auto border = near.begin() + static_cast<std::ptrdiff_t>(count - below);
  std::nth_element(near.begin(), border, near.end());
  const auto is_less = [rank = *border](Rank other) { return other < rank; };
  below += std::count_if(near.begin(), border, is_less);
  return {.rank = *border, .ties = count - below};
}

Border BorderOf(std::span<const Rank> ranks, size_t count) {
  constexpr size_t kFewRanks = 512;
  return ranks.size() <= kFewRanks ? FindBorder<256>(ranks, count)
                                   : FindBorder<4096>(ranks, count);
}

// Gives kOut to those that are not among the best `count`. REQUIRES: the same.
// Without ties at the border there is no branch for a processor to guess wrong.
void KeepBest(std::span<Rank> ranks, size_t count) {
  Border border = BorderOf(ranks, count);
  for (Rank& rank : ranks) {
    if (border.ties > 0 && rank == border.rank) {
      --border.ties;
    } else {
      rank = rank < border.rank ? rank : kOut;
    }
  }
}

// Gives kOwed to the best `count`, or to all that are not out.
void OweBest(std::span<Rank> ranks, size_t count) {
  if (count == 0) return;
  Border border = count < ranks.size() ? BorderOf(ranks, count)
                                       : Border{.rank = kOut, .ties = 0};
  for (Rank& rank : ranks) {
    if (rank == border.rank && border.ties > 0 && rank != kOut) {
      --border.ties;
      rank = kOwed;
    } else if (rank < border.rank) {
      rank = kOwed;
    }
  }
}

// The ranks of all nodes but the roots, tree after tree. A tree's best are also
// the best of its part of the whole, so its bounds are applied here: nodes
// beyond the cap get kOut, those of the floor kOwed. Returns how many are not
// out.
template <typename BoundsOf>
size_t RankAll(std::span<const ProposalTree> trees, const BoundsOf& bounds_of,
               std::span<Rank> ranks) {
  size_t num_out = 0;
  size_t first = 0;
  for (size_t t = 0; t < trees.size(); ++t) {
    const ProposalTree& tree = trees[t];
    const TreeBounds bounds = bounds_of(t);
    BOLE_CHECK(1 <= bounds.floor && bounds.floor <= bounds.cap);
    const size_t count = tree.log_rho.size() - 1;
    const std::span own = std::span(ranks).subspan(first, count);
    std::transform(tree.log_rho.begin() + 1, tree.log_rho.end(), own.begin(),
                   RankOf);
    first += count;
    const size_t most = static_cast<size_t>(bounds.cap) - 1;
    if (count > most) {
      KeepBest(own, most);
      num_out += count - most;
    }
    OweBest(own, static_cast<size_t>(bounds.floor) - 1);
  }
  return ranks.size() - num_out;
}

template <typename BoundsOf>
std::vector<NodeRef> Select(std::span<const ProposalTree> trees, int budget,
                            const BoundsOf& bounds_of) {
  BOLE_CHECK(budget >= std::ssize(trees));
  size_t num_nodes = 0;
  for (const ProposalTree& tree : trees) num_nodes += tree.log_rho.size();
  std::vector<Rank> ranks(num_nodes - trees.size());
  const size_t num_left = RankAll(trees, bounds_of, ranks);
  const size_t count =
      std::min(static_cast<size_t>(budget) - trees.size(), num_left);
  if (count < num_left) KeepBest(ranks, count);

  // Every node is written, and the next one over it if it is out.
  std::vector<NodeRef> selected(count + trees.size() + 1);
  size_t num_selected = 0;
  auto rank = ranks.begin();
  for (int t = 0; t < std::ssize(trees); ++t) {
    selected[num_selected++] = {t, 0};
    for (int i = 1; i < trees[t].size(); ++i) {
      selected[num_selected] = {t, i};
      num_selected += *rank++ != kOut ? 1 : 0;
    }
  }
  selected.resize(num_selected);
  return selected;
}

}  // namespace

std::vector<NodeRef> SelectNodes(std::span<const ProposalTree> trees,
                                 int budget,
                                 std::span<const TreeBounds> bounds) {
  BOLE_CHECK(bounds.size() == trees.size());
  return Select(trees, budget, [bounds](size_t t) { return bounds[t]; });
}

std::vector<NodeRef> SelectNodes(std::span<const ProposalTree> trees,
                                 int budget, int max_nodes_per_tree) {
  const TreeBounds all{.cap = max_nodes_per_tree};
  return Select(trees, budget, [all](size_t) { return all; });
}

std::vector<float> PromisedDrafts(std::span<const ProposalTree> trees,
                                  std::span<const NodeRef> selected) {
  std::vector<float> promised(trees.size());
  for (const NodeRef& ref : selected) {
    if (ref.node == 0) continue;
    promised[ref.tree] += std::exp(trees[ref.tree].log_rho[ref.node]);
  }
  return promised;
}

}  // namespace bole
