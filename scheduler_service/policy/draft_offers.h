// What each shape of drafts would bring in the long run.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_OFFERS_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_OFFERS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/draft_shape.h"
#include "common/step.h"
#include "scheduler_service/policy/calibrated_worker.h"
#include "scheduler_service/policy/draft_forecast.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {

// Chains of 3, 5 and 8 and the tree that was asked for, none of them deeper
// than that nor than the worker can; without speculation none. The first one is
// absent: no draft.
std::vector<std::optional<DraftShape>> ShapesOf(const Speculation& speculation,
                                                const StepLimits& limits);

// Round after round with one shape, at the budget that is best for it.
struct Offer {
  std::optional<DraftShape> draft = {};
  std::optional<int> drafted = {};  // PlannedWork::drafted
  int budget = 0;                   // Nodes that each round verifies.
  double gain = 0;                  // Drafts that are accepted in a round.
  double seconds = 0;               // A round in the engine.
  double stall = 0;                 // Seconds that a chunk adds to a round.
  int lease_rounds = 1;
  double rate = 0;  // Tokens per second, with the share of the trip.
};

// The batch that is offered for.
struct OfferedBatch {
  int requests = 1;
  int open = 1;  // Of these, those that let drafts be verified.
  // Some of them are not followed: the open ones alone are drafted for, and a
  // round that drafts cannot be lent.
  bool is_mixed = false;
  int64_t kv_tokens = 0;
  bool lends = false;  // Its rounds may be lent.
  // Requests end, and their successors' prompts share rounds: the tokens of
  // such a chunk, and how many chunks there are for each token that is emitted.
  int chunk_tokens = 0;
  double chunks_per_token = 0;
  // That each of the requests may still emit. Those that are missing may go on.
  std::vector<int> tokens_left = {};
};

// Rounds of a lease of `offer` that bring the most tokens per second. A longer
// lease saves trips; but the place of a request that ends in it stays empty
// until the lease has ended. At most `most`.
// COST: O(most * requests).
int WorthwhileLease(const Offer& offer, const OfferedBatch& batch,
                    double trip_seconds, int most);

// Not thread-safe.
class DraftOffers {
 public:
  // The references must outlive it.
  DraftOffers(const PolicyOptions& options, const CalibratedWorker& worker,
              DraftForecast& forecast);

  // One for each shape, in order. COST: O(shapes * borders); the costs are
  // looked up again only when the batch or the model of costs has changed.
  const std::vector<Offer>& For(const OfferedBatch& batch);
  // Tokens per second of the best draft for the batch of the last For(), if
  // each draft came true with this chance where the one before it did. Of a
  // tree no more than a chain is counted. COST: O(shapes * borders).
  double RateIf(double chance) const;

 private:
  struct Priced {
    std::vector<int> budgets;
    std::vector<double> seconds;
    std::vector<double> stalls;
  };
  void Price(const OfferedBatch& batch);
  // Shape `shape` at its i-th budget, without a gain.
  Offer OfferAt(size_t shape, size_t i, const OfferedBatch& batch) const;
  double RateOf(const Offer& offer, const OfferedBatch& batch) const;
  Offer Best(size_t shape, const OfferedBatch& batch);

  const PolicyOptions options_;
  const CalibratedWorker& worker_;
  const std::vector<std::optional<DraftShape>> shapes_;
  DraftForecast& forecast_;

  OfferedBatch batch_;  // The last one.
  OfferedBatch priced_for_{.requests = 0};
  int64_t priced_at_ = -1;  // CostModel::version().
  std::vector<Priced> priced_;
  std::vector<Offer> offers_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_DRAFT_OFFERS_H_
