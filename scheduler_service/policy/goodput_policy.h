// The policy that maximizes the expected tokens per second.
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

// What is known about the drafts of a model. The policies of its workers share
// it.
struct DraftHistory {
  Acceptance acceptance;
  DraftForecast forecast;
  int64_t trees = 0;  // How many trees were verified.
};

// Every round decides two things. First, what to draft for the next one: the
// shape with the best long-run rate, tokens over seconds, at the budget that is
// best for it (DraftOffers), or nothing, if that is not at least a fiftieth
// faster than plain decoding. Second, how many nodes of the current trees to
// verify: the number whose expected tokens exceed the value of their time at
// that rate by most. If a request's drafts are rarely accepted, only the root
// of its tree is verified.
//
// A chunk of prefill shares the round. It is as long as the requests with
// targets for their time per token can wait for; without such requests, as long
// as the worker allows. "slo" also gives requests that fall behind their
// targets the nodes that bring them back (FloorsFor()).
//
// Drafts that plain decoding teaches nothing about are tried now and then
// (DraftTrials). While it is known that drafting does not pay, the drafter is
// dormant (Following). If some requests of the batch are not followed, drafts
// are made for the others.
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
  // The batch that offers are made for, if the first `followed_arrivals`
  // arrivals are followed.
  OfferedBatch BatchOf(const RoundView& view, int followed_arrivals) const;
  // The batch of all placed requests, as if their prefill had ended and all
  // were followed.
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
  DraftOffers whole_offers_;  // For whole batches.
  DraftOffers alone_offers_;  // For one request.
  DraftTrials trials_;
  Following following_;
  double plain_rate_ = 0;     // Tokens/s of the batch without drafts.
  bool is_hopeless_ = false;  // Drafting pays at no acceptance.
  SharedPrefills prefills_;
  Surprise surprise_;
  double tokens_of_round_ = 0;  // Expected per round of the last plan.
  int64_t rounds_with_trees_ = 0;
  std::optional<DraftShape> drafted_;  // By the last plan.
  bool drafted_for_some_ = false;      // By the last plan.
  std::optional<DraftShape> tried_;    // Last. Since that trial:
  int64_t tried_trees_ = 0;
  int64_t tried_right_ = 0;               // Those with a right first node.
  std::optional<DraftShape> best_draft_;  // In the last round.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_GOODPUT_POLICY_H_
