#include "scheduler_service/policy/draft_forecast.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/proposal_tree.h"

namespace bole {
namespace {

// The share of the evidence that is kept when a new tree is learnt.
constexpr double kKept = 0.998;
constexpr double kPrior = 6;            // The prior's weight, in trials.
constexpr double kMostAfterDoubt = 12;  // Trials.
// The weight that each request adds to the latest round in the mean gain, and
// the most that all of them add together.
constexpr double kGainWeight = 0.02;
constexpr double kMostGainWeight = 0.06;
// Chances are recomputed after this many observed children.
constexpr int64_t kFewSeen = 24;
// Gains are not learnt before this many children were observed: the chances
// that they are compared to are still guesses.
constexpr int64_t kLeastSeen = 48;

// The chance of the child of a rank before there is any evidence.
double PriorOf(int rank) { return rank == 0 ? 0.72 : 0.14 / (rank * rank); }

double Chance(double hits, double trials, double prior) {
  return (hits + kPrior * prior) / (trials + kPrior);
}

}  // namespace

void DraftForecast::ObserveChild(int depth, int rank, int num_children,
                                 bool in_row) {
  const auto count = [](Count& of, bool hit) {
    of.trials += 1;
    of.hits += hit ? 1 : 0;
  };
  const int level = std::min(depth, kMaxDraftDepth) - 1;
  for (int r = 0; r < std::min(num_children, kMaxDraftTopK); ++r) {
    count(ranks_[level][r], r == rank);
  }
  if (in_row) count(rows_[level], rank == 0);
  ++num_seen_;
}

void DraftForecast::Observe(const TreeReport& report) {
  const ProposalTree& tree = report.tree;
  if (tree.size() == 1 || report.emitted.empty()) return;
  const auto forget = [](Count& count) {
    count.trials *= kKept;
    count.hits *= kKept;
  };
  for (auto& level : ranks_) std::for_each(level.begin(), level.end(), forget);
  std::for_each(rows_.begin(), rows_.end(), forget);
  int node = 0;
  bool in_row = true;
  for (size_t i = 0; i < report.emitted.size() && node != kNoParent; ++i) {
    // Count the children, and find the one that is the next token.
    int num_children = 0;
    int next = kNoParent;
    for (int child = node + 1; child < tree.size(); ++child) {
      if (tree.parent[child] != node) continue;
      ++num_children;
      if (tree.token[child] == report.emitted[i]) next = child;
    }
    if (num_children == 0) return;
    int rank = -1;
    if (next != kNoParent) {
      rank = 0;
      for (int child = node + 1; child < tree.size(); ++child) {
        if (tree.parent[child] != node || child == next) continue;
        const float rho = tree.log_rho[child];
        const float own = tree.log_rho[next];
        rank += rho > own || (rho == own && child < next) ? 1 : 0;
      }
    }
    ObserveChild(static_cast<int>(i) + 1, rank, num_children, in_row);
    in_row = in_row && rank == 0;
    node = next;
  }
}

RankChances DraftForecast::Chances(const DraftShape& shape) const {
  const int width = std::min(shape.top_k, kMaxDraftTopK);
  RankChances chances(shape.depth, std::vector<double>(width));
  for (int rank = 0; rank < width; ++rank) {
    double prior = PriorOf(rank);
    for (int level = 0; level < shape.depth; ++level) {
      const Count& count = width == 1 ? rows_[level] : ranks_[level][rank];
      prior = Chance(count.hits, count.trials, prior);
      chances[level][rank] = prior;
    }
  }
  return chances;
}

void DraftForecast::Make(Known& known) const {
  known.alike = ExpectedDrafts(Chances(known.shape), known.shape);
  known.made_at = num_seen_;
}

DraftForecast::Known& DraftForecast::Of(const DraftShape& shape) {
  auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.shape == shape;
  });
  if (at == known_.end()) {
    at = known_.insert(known_.end(), Known{.shape = shape});
  }
  if (at->made_at < 0 || num_seen_ - at->made_at >= kFewSeen) Make(*at);
  return *at;
}

namespace {

int PointOf(double nodes, int num_points) {
  const double point = 2 * std::log2(std::max(nodes, 1.0));
  return std::min(static_cast<int>(std::lround(point)), num_points - 1);
}

double AlikeAt(const std::vector<double>& alike, double nodes) {
  const double drafts =
      std::clamp(nodes - 1, 0.0, static_cast<double>(alike.size() - 1));
  const auto low = static_cast<size_t>(drafts);
  if (low + 1 >= alike.size()) return alike.back();
  const double share = drafts - static_cast<double>(low);
  return alike[low] * (1 - share) + alike[low + 1] * share;
}

}  // namespace

void DraftForecast::Mean::Observe(double latest, double weight) {
  value += std::max(weight, 1.0 / ++seen) * (latest - value);
}

double DraftForecast::RatioAt(const Known& known, double nodes) const {
  if (known.mean_ratio.seen == 0) {
    // Use what is known of other shapes of its kind.
    for (const Known& other : known_) {
      const bool alike = (other.shape.top_k == 1) == (known.shape.top_k == 1);
      if (other.mean_ratio.seen > 0 && alike) return other.mean_ratio.value;
    }
    return 1;
  }
  const int point = PointOf(nodes, kNumPoints);
  for (int off = 0; off <= 2; ++off) {
    for (const int at : {point - off, point + off}) {
      if (at >= 0 && at < kNumPoints && known.ratio[at].seen > 0) {
        return known.ratio[at].value;
      }
    }
  }
  return known.mean_ratio.value;
}

double DraftForecast::Gain(const DraftShape& shape, double nodes) {
  const Known& known = Of(shape);
  return AlikeAt(known.alike, nodes) * RatioAt(known, nodes);
}

void DraftForecast::ObserveGain(const DraftShape& shape, double nodes,
                                double gain, int requests) {
  if (num_seen_ < kLeastSeen) return;
  Known& known = Of(shape);
  const double expected = AlikeAt(known.alike, nodes);
  if (expected <= 0) return;
  const double ratio = std::clamp(gain / expected, 0.1, 4.0);
  const double weight = std::min(kGainWeight * requests, kMostGainWeight);
  known.ratio[PointOf(nodes, kNumPoints)].Observe(ratio, weight);
  known.mean_ratio.Observe(ratio, weight);
}

void DraftForecast::Doubt() {
  const auto doubt = [](Count& count) {
    if (count.trials <= kMostAfterDoubt) return;
    count.hits *= kMostAfterDoubt / count.trials;
    count.trials = kMostAfterDoubt;
  };
  for (auto& level : ranks_) std::for_each(level.begin(), level.end(), doubt);
  std::for_each(rows_.begin(), rows_.end(), doubt);
}

}  // namespace bole
