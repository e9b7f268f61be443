// What rounds cost: the calibrated table with corrections that are learnt.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_COST_MODEL_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_COST_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "common/cost_table.h"
#include "common/draft_shape.h"
#include "common/step_costs.h"

namespace bole {

// The work of a round that might be run.
struct PlannedWork {
  int rows = 0;  // Rows in the forest.
  int requests = 0;
  int64_t kv_tokens = 0;  // Committed tokens of these requests.
  int64_t prefill_tokens = 0;
  std::optional<DraftShape> draft = {};
  // Committed tokens that the drafter is shown before the round.
  int64_t tail_tokens = 0;
  // How many requests are drafted for, at least one; absent: all.
  std::optional<int> drafted = {};
};
// The quantities if all requests were drafted for.
RoundQuantities QuantitiesOf(const PlannedWork& work);

// A worker's table of costs, and two corrections that are learnt from the
// rounds that it runs: one factor for each kind of round, by the draft's shape
// and the number of rows, within narrow bounds, and one for all rounds. A kind
// that is a tenth dearer than the table says is recognized after some 50
// rounds, and a clock that drops by a third after some 60. A slowdown of one
// kind is in part applied to kinds that are not run. A round that takes far
// longer or shorter than predicted counts as one that is 1.6 times off, so that
// the first one of a shape, which is captured, teaches little.
//
// Not thread-safe.
class CostModel {
 public:
  // The buckets are WorkerDescription::row_buckets.
  CostModel(std::shared_ptr<const CostTable> table,
            std::vector<int> row_buckets);

  // What a round takes in the engine. Its rows are padded as the worker pads
  // them. The worker pads requests as well, but the cost of a round on a GPU
  // depends on the actual requests, so those are not padded here.
  // COST: that of StepCosts::TimeOf().
  double Seconds(const RoundQuantities& quantities) const;
  // A draft for some of the requests is taken to add what it would add to a
  // round of only these.
  double Seconds(const PlannedWork& work) const;
  // What a plan costs besides its rounds.
  double trip_seconds() const { return trip_seconds_; }

  // The budgets between which a round costs the same, or evenly spaced ones if
  // rows are not padded: ascending, from `least` to `most`, both included.
  // `rest` is the number of rows of the same forward that are not nodes.
  std::vector<int> Borders(int least, int most, int64_t rest) const;

  // A round took `seconds` in the engine. REQUIRES: seconds > 0.
  void Observe(const RoundQuantities& quantities, double seconds);
  // A plan took `seconds` besides its rounds, as far as can be measured outside
  // the engine. Values below the table's count as the table's. REQUIRES:
  // seconds >= 0.
  void ObserveTrip(double seconds);

  double factor() const;
  // Increases whenever observations have changed the result of Seconds() by
  // more than a hundredth.
  int64_t version() const { return version_; }

 private:
  enum Kind { kPlain, kTree, kDraft, kChunk };
  // With the draft's k and depth, and the padded rows.
  using Bucket = std::tuple<Kind, int, int, int>;

  RoundQuantities Padded(RoundQuantities quantities) const;
  Bucket BucketOf(const RoundQuantities& padded) const;
  double LogFactor(const Bucket& bucket) const;

  const std::shared_ptr<const CostTable> table_;
  const std::vector<int> row_buckets_;
  double log_factor_ = 0;
  std::map<Bucket, double> log_of_bucket_;
  double trip_seconds_;
  // How much the log factors have changed since the last version.
  double change_ = 0;
  int64_t version_ = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_COST_MODEL_H_
