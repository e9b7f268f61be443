#include "scheduler_service/policy/acceptance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace bole {
namespace {

// The share of the evidence that each round keeps: some 200 rounds count.
constexpr double kKept = 0.995;
// The weights of the priors, in promised drafts: of ratio 1 for all nodes, and
// of the ratio of all nodes for a cell.
constexpr double kPriorOfAll = 16;
constexpr double kPriorOfCell = 16;

}  // namespace

std::vector<int> DepthsOf(const ProposalTree& tree) {
  std::vector<int> depths(tree.size(), 0);
  for (int i = 1; i < tree.size(); ++i) {
    depths[i] = depths[tree.parent[i]] + 1;
  }
  return depths;
}

std::vector<int> AcceptedPath(const TreeReport& report) {
  const ProposalTree& tree = report.tree;
  std::vector<int> path;
  int node = 0;
  for (int i = 0; i < report.accepted; ++i) {
    const auto is_next = [&](int32_t other) {
      return tree.parent[other] == node &&
             tree.token[other] == report.emitted[i];
    };
    const auto next =
        std::find_if(report.selected.begin(), report.selected.end(), is_next);
    if (next == report.selected.end()) break;
    node = *next;
    path.push_back(node);
  }
  return path;
}

Acceptance::Acceptance() {
  for (int bin = 0; bin < kNumBins; ++bin) {
    rho_[bin] = std::exp((static_cast<float>(bin) + 0.5f) / -32.0f);
  }
  EndRound();
}

int Acceptance::GroupOf(int depth) {
  const int group = std::bit_width(static_cast<uint32_t>(depth - 1));
  return std::min(group, kNumGroups - 1);
}

// Cells are finer for likely nodes: they end at 1/16, 1/8, 1/4, ... nat.
int Acceptance::CellOf(int bin) {
  const int cell = std::bit_width(static_cast<uint32_t>(bin / 2));
  return std::min(cell, kNumCells - 1);
}

void Acceptance::Observe(const TreeReport& report) {
  const std::vector<int> depths = DepthsOf(report.tree);
  const auto count_of = [&](int node) -> Count& {
    return counts_[GroupOf(depths[node])]
                  [CellOf(BinOf(report.tree.log_rho[node]))];
  };
  for (const int32_t node : report.selected) {
    if (node == 0) continue;
    const double rho = rho_[BinOf(report.tree.log_rho[node])];
    count_of(node).promised += rho;
    all_.promised += rho;
  }
  for (const int node : AcceptedPath(report)) {
    count_of(node).accepted += 1;
    all_.accepted += 1;
  }
}

double Acceptance::ratio() const {
  return (all_.accepted + kPriorOfAll) / (all_.promised + kPriorOfAll);
}

void Acceptance::EndRound() {
  const double stands = ratio();
  all_.promised *= kKept;
  all_.accepted *= kKept;
  for (int group = 0; group < kNumGroups; ++group) {
    std::array<float, kNumCells> ratios;
    for (int cell = 0; cell < kNumCells; ++cell) {
      Count& count = counts_[group][cell];
      ratios[cell] =
          static_cast<float>((count.accepted + kPriorOfCell * stands) /
                             (count.promised + kPriorOfCell));
      count.promised *= kKept;
      count.accepted *= kKept;
    }
    for (int bin = 0; bin < kNumBins; ++bin) {
      value_[group][bin] = std::min(rho_[bin] * ratios[CellOf(bin)], 1.0f);
    }
  }
}

double Acceptance::Promised(const TreeReport& report) const {
  const std::vector<int> depths = DepthsOf(report.tree);
  double promised = 0;
  for (const int32_t node : report.selected) {
    if (node == 0) continue;
    promised += ValueOf(depths[node], BinOf(report.tree.log_rho[node]));
  }
  return promised;
}

GainCurve::GainCurve(const RoundView& view, const Acceptance& acceptance)
    : count_(Acceptance::kNumBins), gain_(Acceptance::kNumBins) {
  std::vector<int> depths;
  for (size_t b = 0; b < view.trees.size(); ++b) {
    const ProposalTree& tree = view.trees[b];
    const RequestAcceptance* own = view.sequences[b].acceptance;
    const double factor = own == nullptr ? 1 : own->factor();
    depths.assign(tree.size(), 0);
    for (int i = 1; i < tree.size(); ++i) {
      depths[i] = depths[tree.parent[i]] + 1;
      const int bin = Acceptance::BinOf(tree.log_rho[i]);
      ++count_[bin];
      gain_[bin] += factor * acceptance.ValueOf(depths[i], bin);
    }
  }
  for (size_t bin = 1; bin < count_.size(); ++bin) {
    count_[bin] += count_[bin - 1];
    gain_[bin] += gain_[bin - 1];
  }
}

size_t GainCurve::BinWith(int drafts) const {
  return std::lower_bound(count_.begin(), count_.end(), drafts) -
         count_.begin();
}

double GainCurve::LastOf(int drafts) const {
  if (drafts < 1 || drafts > num_drafts()) return 0;
  const size_t bin = BinWith(drafts);
  const int count = count_[bin] - (bin == 0 ? 0 : count_[bin - 1]);
  return (gain_[bin] - (bin == 0 ? 0 : gain_[bin - 1])) / count;
}

double GainCurve::At(int drafts) const {
  if (drafts < 1) return 0;
  if (drafts >= num_drafts()) return gain_.back();
  const size_t bin = BinWith(drafts);
  return gain_[bin] - (count_[bin] - drafts) * LastOf(drafts);
}

}  // namespace bole
