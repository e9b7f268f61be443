#include "common/select_nodes.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "common/check.h"

namespace bole {
namespace {

struct Candidate {
  float log_rho;
  NodeRef ref;
};

bool Before(const Candidate& a, const Candidate& b) {
  return std::tie(b.log_rho, a.ref) < std::tie(a.log_rho, b.ref);
}

// Keeps the best `count` of candidates[first ..), in any order.
void KeepBest(std::vector<Candidate>& candidates, size_t first, size_t count) {
  if (candidates.size() - first <= count) return;
  const auto begin = candidates.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  std::nth_element(begin, end, candidates.end(), Before);
  candidates.erase(end, candidates.end());
}

}  // namespace

std::vector<NodeRef> SelectNodes(std::span<const ProposalTree> trees,
                                 int budget, int max_nodes_per_tree) {
  BOLE_CHECK(budget >= std::ssize(trees));
  BOLE_CHECK(max_nodes_per_tree >= 1);
  std::vector<NodeRef> selected;
  std::vector<Candidate> candidates;
  for (int t = 0; t < std::ssize(trees); ++t) {
    selected.push_back({t, 0});
    // A tree's best are also the best of its part of the whole, so its limit
    // can be applied first.
    const size_t first = candidates.size();
    for (int i = 1; i < trees[t].size(); ++i) {
      candidates.push_back({trees[t].log_rho[i], {t, i}});
    }
    KeepBest(candidates, first, static_cast<size_t>(max_nodes_per_tree) - 1);
  }
  KeepBest(candidates, 0, static_cast<size_t>(budget) - trees.size());

  for (const Candidate& candidate : candidates) {
    selected.push_back(candidate.ref);
  }
  std::sort(selected.begin(), selected.end());
  return selected;
}

}  // namespace bole
