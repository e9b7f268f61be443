// The most expected tokens per second.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_GOODPUT_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_GOODPUT_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/draft_shape.h"
#include "scheduler_service/policy/acceptance.h"
#include "scheduler_service/policy/calibrated_worker.h"
#include "scheduler_service/policy/draft_forecast.h"
#include "scheduler_service/policy/draft_offers.h"
#include "scheduler_service/policy/draft_trials.h"
#include "scheduler_service/policy/following.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/policy/shared_prefills.h"
#include "scheduler_service/policy/surprise.h"

namespace bole {

// What is known of the drafts of a model, shared by the policies of its
// workers.
struct DraftHistory {
  Acceptance acceptance;
  DraftForecast forecast;
  int64_t trees = 0;  // How many trees were verified.
};

// Every round asks two questions. What to draft for the next one: the shape
// with the best long-run rate, tokens over seconds, at the budget that is best
// for it (DraftOffers), or nothing, if that is not at least a fiftieth faster
// than plain decoding. And how many nodes of the trees that are there to
// verify: as many as bring the most beyond what their time is worth at that
// rate. A tree whose request's drafts hardly come true is verified no further
// than its root.
//
// A chunk of prefill shares the round as far as the requests that have targets
// for their time per token can wait for it; without such requests, as much as
// the worker takes. "slo" also gives requests that fall behind their targets
// the nodes that bring them back (FloorsFor()).
//
// What plain decoding leaves unknown is tried now and then (DraftTrials). While
// it is known that drafting does not pay, the drafter is dormant (Following).
// Where some of the batch are not followed, the others are drafted for.
class GoodputPolicy final : public RoundPolicy {
 public:
  GoodputPolicy(const PolicyOptions& options, CalibratedWorker worker,
                std::shared_ptr<DraftHistory> history);

  const RoundBounds& bounds() const override { return bounds_; }
  RoundChoice Choose(const RoundView& view) override;
  bool urgent_first() const override {
    return options_.kind == PolicyKind::kSlo;
  }
  void Observe(const RoundReport& report) override;

 private:
  // The batch as offers see it, if of the arrivals so many are followed.
  OfferedBatch BatchOf(const RoundView& view, int followed_arrivals) const;
  // All that are there, once their prefill has ended, and as if all were
  // followed.
  OfferedBatch WholeBatchOf(const RoundView& view) const;
  bool IsWorthKeeping(const OfferedBatch& batch);
  double LostInPrefill(const RoundView& view) const;
  Following::Decision Follow(const RoundView& view);
  const Offer& BestOf(const std::vector<Offer>& offers) const;
  struct Next {
    const Offer& draft;  // For the next round.
    double rate;         // The best in the long run.
  };
  Next NextDraft(const OfferedBatch& batch);
  void LearnFrom(const TreeReport& tree);
  const Offer& ToTry(const std::vector<Offer>& offers, const Offer& best) const;
  void ChooseBudget(const RoundView& view, const Offer& next, double rate,
                    RoundChoice& choice);
  void LearnOfChains(const RoundView& view);
  int64_t ChoosePrefill(const RoundView& view, const Offer& next) const;
  void ChooseFloors(const RoundView& view, RoundChoice& choice) const;
  void ChooseBounds(const RoundView& view, double least_value,
                    RoundChoice& choice) const;

  const PolicyOptions options_;
  CalibratedWorker worker_;
  const std::shared_ptr<DraftHistory> history_;
  const RoundBounds bounds_;
  DraftOffers offers_;
  DraftOffers whole_offers_;  // For whole batches,
  DraftOffers alone_offers_;  // and for one request.
  DraftTrials trials_;
  Following following_;
  double plain_rate_ = 0;     // What plain decoding of the whole batch gives.
  bool is_hopeless_ = false;  // It is drafted for in vain, whatever comes true.
  SharedPrefills prefills_;
  Surprise surprise_;
  double tokens_of_round_ = 0;  // Expected of the last plan, each round.
  int64_t rounds_with_trees_ = 0;
  std::optional<DraftShape> drafted_;  // By the last plan,
  bool drafted_for_some_ = false;      // and not for all.
  std::optional<DraftShape> tried_;    // Last. Since then:
  int64_t tried_trees_ = 0;
  int64_t tried_right_ = 0;  // Those of them whose first node was right.
  std::optional<DraftShape> best_draft_;  // In the last round.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_GOODPUT_POLICY_H_
