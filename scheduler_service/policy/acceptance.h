// How accurate the drafter's probabilities are.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_ACCEPTANCE_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_ACCEPTANCE_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "common/proposal_tree.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// The ratio of accepted to promised drafts of one model, by depth and by rho.
// The promised drafts are the sum of rho over the verified nodes, which is the
// number that should be accepted. Old rounds are gradually forgotten. Where
// there is little evidence, the ratio of all nodes is used, and 1 before there
// is any.
//
// Not thread-safe.
class Acceptance {
 public:
  Acceptance();

  // Values of rho are distinguished in steps of 1/32 nat.
  static constexpr int kNumBins = 512;
  static constexpr int kMaxDepth = 16;
  static int BinOf(float log_rho) {
    const float bin = log_rho * -32.0f;
    return bin < kNumBins - 1 ? static_cast<int>(bin) : kNumBins - 1;
  }

  // The probability that a node is accepted. REQUIRES: depth >= 1.
  float ValueOf(int depth, int bin) const {
    return value_[GroupOf(depth)][bin];
  }

  // COST: O(nodes of the tree).
  void Observe(const TreeReport& report);
  // Must be called once after the trees of a round. COST: O(kNumBins).
  void EndRound();

  // The recent ratio of accepted to promised drafts of all nodes.
  double ratio() const;
  // The drafts that the verified nodes of a tree promised, after correction.
  double Promised(const TreeReport& report) const;

 private:
  // Depths are counted in groups: 1, 2, 3-4, 5-8, and deeper ones.
  static constexpr int kNumGroups = 5;
  static constexpr int kNumCells = 8;  // Intervals that rho is counted in.
  static int GroupOf(int depth);
  static int CellOf(int bin);

  struct Count {
    double promised = 0;
    double accepted = 0;
  };
  std::array<std::array<Count, kNumCells>, kNumGroups> counts_{};
  Count all_;
  std::array<float, kNumBins> rho_;  // In the middle of a bin.
  std::array<std::array<float, kNumBins>, kNumGroups> value_;
};

// The depths of a tree's nodes; the root's is 0.
std::vector<int> DepthsOf(const ProposalTree& tree);

// The nodes of the tree that carry the accepted drafts, from the root down.
std::vector<int> AcceptedPath(const TreeReport& report);

// The number of drafts that are expected to be accepted if the best nodes of a
// batch are verified. They are chosen as SelectNodes() does, by rho, without
// the requests' factors.
class GainCurve {
 public:
  // COST: O(candidates).
  GainCurve(const RoundView& view, const Acceptance& acceptance);

  // Expected accepted drafts of the likeliest `drafts` nodes, without roots.
  double At(int drafts) const;
  // The part of At(drafts) that the last of these nodes adds.
  double LastOf(int drafts) const;
  int num_drafts() const { return count_.back(); }

 private:
  size_t BinWith(int drafts) const;

  // Sums over a bin and all likelier bins.
  std::vector<int> count_;
  std::vector<double> gain_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_ACCEPTANCE_H_
