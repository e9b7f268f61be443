// What rounds cost, as it was calibrated and as it is now.
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

// What a round would run.
struct PlannedWork {
  int rows = 0;  // Of the forest.
  int requests = 0;
  int64_t kv_tokens = 0;  // Of these.
  int64_t prefill_tokens = 0;
  std::optional<DraftShape> draft = {};
  // Committed tokens that the drafter is shown before the round.
  int64_t tail_tokens = 0;
  // Requests that are drafted for, at least one, if they are not all.
  std::optional<int> drafted = {};
};
// As if all were drafted for.
RoundQuantities QuantitiesOf(const PlannedWork& work);

// A worker's table of costs, and two corrections that are learnt from the
// rounds that it runs: one factor for each kind of round, by the draft's shape
// and the number of rows, within narrow bounds, and one for all rounds. A kind
// that is a tenth dearer than the table says is known so after some 50 rounds,
// a third of the clock that is lost after some 60. What one kind loses, others
// that are not run are taken to lose in part. A round that takes far longer or
// shorter than predicted counts as one that is 1.6 times off, so that the first
// one of a shape, which is captured, teaches little.
//
// Not thread-safe.
class CostModel {
 public:
  // Buckets are as WorkerDescription has them.
  CostModel(std::shared_ptr<const CostTable> table,
            std::vector<int> row_buckets);

  // What a round takes in the engine. Its rows are padded as the worker pads
  // them. The worker pads requests as well, but rounds on a GPU cost by the
  // requests that there are, so those are not padded here.
  // COST: that of StepCosts::TimeOf().
  double Seconds(const RoundQuantities& quantities) const;
  // What a draft for some of the requests adds is what it would add to a round
  // of these alone.
  double Seconds(const PlannedWork& work) const;
  // What a plan costs besides its rounds.
  double trip_seconds() const { return trip_seconds_; }

  // The budgets between which a round costs the same, or which are even shares
  // if rows are not padded: ascending, from `least` to `most`, both included.
  // `rest` are rows of the same forward that are no nodes.
  std::vector<int> Borders(int least, int most, int64_t rest) const;

  // A round took so long in the engine. REQUIRES: seconds > 0.
  void Observe(const RoundQuantities& quantities, double seconds);
  // A plan took so long besides, as far as it can be seen from outside of the
  // engine: no less than the table says is learnt. REQUIRES: seconds >= 0.
  void ObserveTrip(double seconds);

  double factor() const;
  // Goes up with every observation that changes what Seconds() returns by more
  // than a hundredth.
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
  double change_ = 0;  // Of logarithms, since the last version.
  int64_t version_ = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_COST_MODEL_H_
