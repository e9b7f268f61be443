// The part of the goodput policy that decides which requests the drafter
// follows. goodput_policy.cc says why it is a separate file but not a class.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/step.h"
#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/goodput_policy.h"

namespace bole {
namespace {

// The acceptance of drafts counts as known after this many verified trees, or
// after this many trials.
constexpr int64_t kTreesToKnow = 24;
constexpr int kTrialsToKnow = 3;
// The time that the drafter adds to a prompt's prefill, as a share of it.
constexpr double kDrafterShare = 0.1;
// Drafting is hopeless if its rate would be below this share of plain
// decoding's even if every draft were accepted. The margin allows for errors of
// the cost table.
constexpr double kHopeless = 0.9;
// The factor by which drafts have to make a lone request faster for it to be
// followed in a batch that is too large for drafts.
constexpr double kWorthKeeping = 1.75;
// The share that showing the drafter all tokens may add to the rounds
// meanwhile.
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
  // Requests whose prefill may end in this round are in the next batch.
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

// Whether the drafter should keep following although drafting does not pay now:
// the last request that is left when the others have ended would gain much, and
// following costs little.
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

// Seconds that following a probe's prompt costs before its trial begins.
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
