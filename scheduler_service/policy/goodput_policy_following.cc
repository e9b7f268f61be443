// The goodput policy's part for whom the drafter follows. Why it is a file of
// its own and not a class is told in goodput_policy.cc.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/step.h"
#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/goodput_policy.h"

namespace bole {
namespace {

// Trees that say how drafts come true, and trials that have changed nothing and
// say as much.
constexpr int64_t kTreesToKnow = 24;
constexpr int kTrialsToKnow = 3;
// Of a prompt's prefill, what the drafter adds to it.
constexpr double kDrafterShare = 0.1;
// Drafting is hopeless if it had less than this share of plain decoding's rate
// although every draft came true: the table of costs may be wrong by the rest.
constexpr double kHopeless = 0.9;
// By which a request alone has to be faster with drafts to be followed in a
// batch that is too large for them.
constexpr double kWorthKeeping = 1.75;
// And what showing the drafter all tokens may add to the rounds meanwhile.
constexpr double kKeepingShare = 0.02;

}  // namespace

OfferedBatch GoodputPolicy::BatchOf(const RoundView& view,
                                    int followed_arrivals) const {
  const auto requests = static_cast<int>(view.sequences.size());
  const auto count = [&](auto&& is) {
    return static_cast<int>(
        std::count_if(view.sequences.begin(), view.sequences.end(), is));
  };
  const int open = count(
      [](const SequenceView& of) { return of.speculates && of.is_followed; });
  const int joining = view.joining_followed +
                      std::min(view.joining_arrivals, followed_arrivals);
  const bool is_mixed =
      joining < view.joining ||
      count([](const SequenceView& of) { return !of.is_followed; }) > 0;
  // Those whose prefill ends are in the next round.
  OfferedBatch batch{.requests = std::max(requests + view.joining, 1),
                     .open = open + joining,
                     .is_mixed = is_mixed,
                     .kv_tokens = view.kv_tokens,
                     .lends = !view.others_wait && view.prefill_tokens == 0,
                     .chunk_tokens = prefills_.chunk_tokens(),
                     .chunks_per_token = prefills_.chunks_per_token()};
  if (requests + view.joining == 0) {
    batch.open = std::min(view.followed_prefills + followed_arrivals, 1);
  }
  if (!batch.lends) return batch;
  for (const SequenceView& of : view.sequences) {
    batch.tokens_left.push_back(of.tokens_left);
  }
  return batch;
}

OfferedBatch GoodputPolicy::WholeBatchOf(const RoundView& view) const {
  const auto speculates =
      std::count_if(view.sequences.begin(), view.sequences.end(),
                    [](const SequenceView& of) { return of.speculates; });
  const int requests = static_cast<int>(view.sequences.size());
  return {.requests = std::max(requests + view.prefilling, 1),
          .open = static_cast<int>(speculates) + view.prefilling,
          .kv_tokens = view.kv_tokens,
          .lends = !view.others_wait,
          .chunk_tokens = prefills_.chunk_tokens(),
          .chunks_per_token = prefills_.chunks_per_token()};
}

// Whether whoever is left alone when the others have ended would gain so much,
// and it costs so little, that the drafter is kept up for it.
bool GoodputPolicy::IsWorthKeeping(const OfferedBatch& batch) {
  const PlannedWork plain{.rows = batch.requests,
                          .requests = batch.requests,
                          .kv_tokens = batch.kv_tokens};
  PlannedWork shown = plain;
  shown.tail_tokens = kMaxDraftTail;
  const double seconds = worker_.costs.Seconds(plain);
  const double added =
      (worker_.costs.Seconds(shown) - seconds) * batch.requests / kMaxDraftTail;
  if (added > kKeepingShare * seconds) return false;
  const std::vector<Offer>& alone = alone_offers_.For(
      {.kv_tokens = batch.kv_tokens / batch.requests, .lends = batch.lends});
  return BestOf(alone).rate > kWorthKeeping * alone.front().rate;
}

// What a probe loses before its trial, by its prompt.
double GoodputPolicy::LostInPrefill(const RoundView& view) const {
  const PlannedWork prompt{
      .prefill_tokens = std::min<int64_t>(view.arrival_tokens,
                                          worker_.limits.max_prefill_tokens)};
  return kDrafterShare * worker_.costs.Seconds(prompt) *
         static_cast<double>(view.arrival_tokens) /
         static_cast<double>(prompt.prefill_tokens);
}

Following::Decision GoodputPolicy::Follow(const RoundView& view) {
  if (!worker_.can_defer) return {.arrivals = view.arrivals};
  OfferedBatch batch = WholeBatchOf(view);
  const std::vector<Offer>& offers = whole_offers_.For(batch);
  plain_rate_ = offers.front().rate;
  const bool pays = BestOf(offers).draft.has_value() || IsWorthKeeping(batch);
  is_hopeless_ = !pays && batch.open > 0 &&
                 whole_offers_.RateIf(1) < kHopeless * plain_rate_;
  const auto followed = static_cast<int>(
      std::count_if(view.sequences.begin(), view.sequences.end(),
                    [](const SequenceView& of) { return of.is_followed; }));
  Following::Turn turn{.pays = pays,
                       .is_known = is_hopeless_ ||
                                   history_->trees >= kTreesToKnow ||
                                   trials_.count() >= kTrialsToKnow,
                       .is_hopeless = is_hopeless_,
                       .trials = trials_.count(),
                       .followed = followed + view.followed_prefills,
                       .arrivals = view.arrivals};
  if (pays || !turn.is_known || is_hopeless_ || turn.followed > 0 ||
      turn.arrivals == 0) {
    return following_.Decide(turn);
  }
  batch.open = 1;
  batch.is_mixed = batch.requests > 1;
  const std::vector<Offer>& of_probe = offers_.For(batch);
  const Offer& plain = of_probe.front();
  const double lost = LostInPrefill(view);
  turn.affords_probe =
      trials_.credit() >=
      lost + DraftTrials::LossOf(plain, ToTry(of_probe, plain));
  const Following::Decision decision = following_.Decide(turn);
  if (decision.probes) trials_.Spend(lost);
  return decision;
}

}  // namespace bole
