// What drafts of a shape would bring that were not made.
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
// token, by depth, and how often the likeliest ones are all of them in a row.
// From these follow what the best nodes of a shape are expected to bring, were
// all contexts alike. They are not, and the best nodes of a tree that was made
// for its context bring more; how much more is learnt for each shape from the
// trees that there are. Before anything was seen it expects enough to try.
//
// Not thread-safe.
class DraftForecast {
 public:
  // COST: O(tokens * nodes of the tree).
  void Observe(const TreeReport& report);

  // Expected accepted drafts of one request of which `nodes` nodes of a draft
  // of `shape` are verified, the root included.
  double Gain(const DraftShape& shape, double nodes);
  // A batch of so many requests with drafts of the shape has this gain for each
  // of them, by the trees that it has. REQUIRES: nodes > 1.
  void ObserveGain(const DraftShape& shape, double nodes, double gain,
                   int requests);

  // What was learnt is old: what comes now counts for more.
  void Doubt();

 private:
  static constexpr int kMaxShapes = 16;
  static constexpr int kNumPoints = 15;  // Of nodes: 1, 1.4, 2, 2.8, ... 128.
  struct Count {
    double trials = 0;
    double hits = 0;
  };
  // A mean of recent values, of all of them in the beginning.
  struct Mean {
    double value = 0;
    int seen = 0;

    void Observe(double latest, double weight);
  };
  struct Known {
    DraftShape shape;
    int64_t made_at = -1;                  // Of `alike`: num_seen_.
    std::vector<double> alike = {};        // By number of drafts, from 0.
    std::array<Mean, kNumPoints> ratio{};  // To `alike`.
    Mean mean_ratio{};
  };

  void ObserveChild(int depth, int rank, int num_children, bool in_row);
  // The chances of the depths and ranks that the shape has. A chain has rank 0
  // alone.
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
