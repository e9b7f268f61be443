// How many drafts of a shape would be accepted, even if none were made.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_FORECAST_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_FORECAST_H_

#include <array>
#include <cstdint>
#include <vector>

#include "common/draft_shape.h"
#include "common/expected_acceptance.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// Learns how often the r-th likeliest child of an accepted node is the next
// token, by depth, and how often the likeliest child was the next token at
// every depth so far. These give the expected gain of the best nodes of a shape
// if all contexts were alike. They are not, and the best nodes of a tree that
// was made for its context gain more; how much more is learnt for each shape
// from actual trees. Before there is any evidence, the forecast is high enough
// for drafts to be tried.
//
// Not thread-safe.
class DraftForecast {
 public:
  // COST: O(tokens * nodes of the tree).
  void Observe(const TreeReport& report);

  // The expected accepted drafts of one request if `nodes` nodes of a draft of
  // `shape` are verified, the root included.
  double Gain(const DraftShape& shape, double nodes);
  // The actual trees of a batch of `requests` requests with drafts of the shape
  // promise `gain` accepted drafts for each request. REQUIRES: nodes > 1.
  void ObserveGain(const DraftShape& shape, double nodes, double gain,
                   int requests);

  // Reduces the weight of what was learnt, so that new evidence counts for
  // more.
  void Doubt();

 private:
  static constexpr int kMaxShapes = 16;
  // The points are numbers of nodes: 1, 1.4, 2, 2.8, ... 128.
  static constexpr int kNumPoints = 15;
  struct Count {
    double trials = 0;
    double hits = 0;
  };
  // A mean of recent values; at first, of all values.
  struct Mean {
    double value = 0;
    int seen = 0;

    void Observe(double latest, double weight);
  };
  struct Known {
    DraftShape shape;
    int64_t made_at = -1;                  // num_seen_ when `alike` was made.
    std::vector<double> alike = {};        // By number of drafts, from 0.
    std::array<Mean, kNumPoints> ratio{};  // To `alike`.
    Mean mean_ratio{};
  };

  void ObserveChild(int depth, int rank, int num_children, bool in_row);
  // The chances of the depths and ranks that the shape has. A chain has only
  // rank 0.
  RankChances Chances(const DraftShape& shape) const;
  void Make(Known& known) const;
  Known& Of(const DraftShape& shape);
  double RatioAt(const Known& known, double nodes) const;

  std::array<std::array<Count, kMaxDraftTopK>, kMaxDraftDepth> ranks_{};
  std::array<Count, kMaxDraftDepth> rows_{};  // All so far were the likeliest.
  std::vector<Known> known_;
  int64_t num_seen_ = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_FORECAST_H_
