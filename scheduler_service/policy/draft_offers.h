// The throughput that each shape of drafts would have in the long run.
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

// Chains of 3, 5 and 8 and the requested tree, none of them deeper than the
// requested depth or than the worker can draft; without speculation none of
// these. The first entry is absent: no draft.
std::vector<std::optional<DraftShape>> ShapesOf(const Speculation& speculation,
                                                const StepLimits& limits);

// Decoding with drafts of one shape in every round, at the budget that is best
// for it.
struct Offer {
  std::optional<DraftShape> draft = {};
  std::optional<int> drafted = {};  // PlannedWork::drafted
  int budget = 0;                   // Nodes verified per round.
  double gain = 0;                  // Accepted drafts per round.
  double seconds = 0;               // A round takes this long in the engine.
  double stall = 0;                 // Seconds that prefill adds to a round.
  int lease_rounds = 1;
  double rate = 0;  // Tokens per second; the trip is included.
};

// The batch that an offer is for.
struct OfferedBatch {
  int requests = 1;
  int open = 1;  // How many requests let their drafts be verified.
  // Some of them are not followed: only the open ones are drafted for, and a
  // round that drafts cannot be lent.
  bool is_mixed = false;
  int64_t kv_tokens = 0;
  bool lends = false;  // Its rounds may be lent.
  // Requests end, and their successors' prompts share rounds: the tokens of
  // such a chunk of prefill, and the number of chunks per emitted token.
  int chunk_tokens = 0;
  double chunks_per_token = 0;
  // Tokens that each of the requests may still emit. Requests that are missing
  // here have no known end.
  std::vector<int> tokens_left = {};
};

// The number of rounds of a lease of `offer` that gives the most tokens per
// second. A longer lease saves trips; but the place of a request that ends in
// it stays empty until the lease has ended. At most `most`.
// COST: O(most * requests).
int WorthwhileLease(const Offer& offer, const OfferedBatch& batch,
                    double trip_seconds, int most);

// Not thread-safe.
class DraftOffers {
 public:
  // The references must outlive it.
  DraftOffers(const PolicyOptions& options, const CalibratedWorker& worker,
              DraftForecast& forecast);

  // One offer for each shape, in order. COST: O(shapes * borders); the costs
  // are looked up again only when the batch or the cost model has changed.
  const std::vector<Offer>& For(const OfferedBatch& batch);
  // Tokens per second of the best draft for the batch of the last For(), if
  // each draft were accepted with this chance once the one before it is. A tree
  // counts no more than a chain. COST: O(shapes * borders).
  double RateIf(double chance) const;

 private:
  struct Priced {
    std::vector<int> budgets;
    std::vector<double> seconds;
    std::vector<double> stalls;
  };
  void Price(const OfferedBatch& batch);
  // The offer of shape `shape` at its i-th budget, without a gain.
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
