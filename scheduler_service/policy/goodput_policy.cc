#include "scheduler_service/policy/goodput_policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "common/step.h"
#include "common/trim_tree.h"
#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/latency_floors.h"

namespace bole {
namespace {

// By which drafting has to be faster than plain decoding, as it is expected.
constexpr double kMargin = 1.02;
// By which another shape has to be faster than that of the last plan.
constexpr double kReasonToChange = 1.01;
// A request whose drafts come true less often than this share of what they
// promise may be left out.
constexpr double kPoorFactor = 0.7;
// Tokens: a request that is more of them behind its target is given up.
constexpr double kHopelesslyLate = 32;
// Of so many rounds with trees one is looked at as if it had chains.
constexpr int kRoundsOfChains = 4;

}  // namespace

void SharedPrefills::Shared(int64_t chunk_tokens) {
  chunks_ += 1;
  chunk_tokens_ += static_cast<double>(chunk_tokens);
}

void SharedPrefills::Emitted(double tokens) {
  constexpr double kKept = 0.997;  // In every round.
  chunks_ *= kKept;
  chunk_tokens_ *= kKept;
  tokens_ = kKept * tokens_ + tokens;
}

int SharedPrefills::chunk_tokens() const {
  if (chunks_ < 0.1) return 0;
  const double grids = chunk_tokens_ / chunks_ / kPrefillGrid;
  return std::max(static_cast<int>(std::lround(grids)), 1) * kPrefillGrid;
}

GoodputPolicy::GoodputPolicy(const PolicyOptions& options,
                             CalibratedWorker worker,
                             std::shared_ptr<DraftHistory> history)
    : options_(options),
      worker_(std::move(worker)),
      history_(std::move(history)),
      bounds_(WidestBounds(ShapesOf(options.speculation, worker_.limits),
                           worker_.limits)),
      offers_(options, worker_, history_->forecast) {}

OfferedBatch GoodputPolicy::BatchOf(const RoundView& view) const {
  const auto requests = static_cast<int>(view.sequences.size());
  const auto open = static_cast<int>(
      std::count_if(view.sequences.begin(), view.sequences.end(),
                    [](const SequenceView& of) { return of.speculates; }));
  // Those whose prefill ends are in the next round.
  OfferedBatch batch{.requests = std::max(requests + view.joining, 1),
                     .open = open + view.joining,
                     .kv_tokens = view.kv_tokens,
                     .lends = !view.others_wait && view.prefill_tokens == 0,
                     .chunk_tokens = prefills_.chunk_tokens(),
                     .chunks_per_token = prefills_.chunks_per_token()};
  if (requests == 0) batch.open = batch.requests;
  if (!batch.lends) return batch;
  for (const SequenceView& of : view.sequences) {
    batch.tokens_left.push_back(of.tokens_left);
  }
  return batch;
}

GoodputPolicy::Next GoodputPolicy::NextDraft(const RoundView& view,
                                             const OfferedBatch& batch) {
  const std::vector<Offer>& offers = offers_.For(batch);
  const auto score = [this](const Offer& offer) {
    // Whoever may not stop to draft compares drafts alone.
    if (!offer.draft) return worker_.can_defer ? kMargin * offer.rate : -1;
    return offer.rate * (offer.draft == drafted_ ? kReasonToChange : 1);
  };
  const Offer* best = &offers.front();
  for (const Offer& offer : offers) {
    if (score(offer) > score(*best)) best = &offer;
  }
  const Offer& other = ToTry(offers, *best);
  if (best->draft != best_draft_) trials_.Changed();
  best_draft_ = best->draft;
  bool begins = false;
  const bool tries = trials_.Tries(*best, other, view.now, begins);
  if (begins) tried_ = other.draft;
  if (begins && !best->draft) history_->forecast.Doubt();
  return {.draft = tries ? other : *best, .rate = best->rate};
}

// What is to be tried instead of `best`: of the widest shape all others can be
// learnt, and what seems almost as good costs little to try.
const Offer& GoodputPolicy::ToTry(const std::vector<Offer>& offers,
                                  const Offer& best) const {
  if (trials_.on()) {
    for (const Offer& offer : offers) {
      if (offer.draft == tried_) return offer;
    }
  }
  const Offer& widest = offers.back();
  const bool by_width = best.draft && trials_.count() % 2 == 0;
  if (by_width && best.draft != widest.draft) return widest;
  const Offer* second = best.draft == offers[1].draft ? &widest : &offers[1];
  for (const Offer& offer : offers) {
    if (!offer.draft || offer.draft == best.draft) continue;
    if (offer.rate > second->rate) second = &offer;
  }
  return *second;
}

void GoodputPolicy::ChooseBudget(const RoundView& view, const Offer& next,
                                 double rate, RoundChoice& choice) {
  const auto requests = static_cast<int>(view.trees.size());
  int64_t most = 0;
  int with_drafts = 0;
  for (const ProposalTree& tree : view.trees) {
    most += std::min(tree.size(), bounds_.max_nodes_per_tree);
    with_drafts += tree.size() > 1 ? 1 : 0;
  }
  most = std::min<int64_t>(most, worker_.limits.max_nodes);
  const GainCurve curve(view, history_->acceptance);
  const int64_t chunk = ChoosePrefill(view, next);
  choice.prefill_tokens = static_cast<int>(chunk);
  PlannedWork work{.requests = requests,
                   .kv_tokens = view.kv_tokens,
                   .prefill_tokens = chunk,
                   .draft = next.draft};
  double best = 0;
  for (const int budget :
       worker_.costs.Borders(requests, static_cast<int>(most), chunk)) {
    work.rows = budget;
    const double seconds = worker_.costs.Seconds(work);
    const double gain = curve.At(budget - requests);
    const double worth = gain - rate * seconds;
    if (drafted_ && with_drafts > 0 && budget > requests) {
      const double shared = with_drafts;
      history_->forecast.ObserveGain(*drafted_,
                                     1 + (budget - requests) / shared,
                                     gain / shared, with_drafts);
    }
    const bool tries = trials_.on() && budget <= next.budget;
    if (choice.budget > 0 && worth <= best && !tries) continue;
    best = worth;
    choice.budget = budget;
    choice.predicted_seconds = seconds;
    choice.promised_drafts = gain;
  }
  ChooseBounds(view, curve.LastOf(choice.budget - requests), choice);
  if (options_.kind == PolicyKind::kSlo) ChooseFloors(view, choice);
  if (drafted_ && drafted_->top_k > 1 && with_drafts == requests &&
      (trials_.on() || ++rounds_with_trees_ % kRoundsOfChains == 1)) {
    LearnOfChains(view);
  }
}

// As many tokens as the requests with targets can wait for: after the round
// they are still in time, if it brings them what a round of `next` does.
// Requests that are far behind do not count.
int64_t GoodputPolicy::ChoosePrefill(const RoundView& view,
                                     const Offer& next) const {
  int64_t chunk =
      std::min<int64_t>(view.prefill_tokens, worker_.limits.max_prefill_tokens);
  const double tokens = 1 + next.gain / static_cast<double>(view.trees.size());
  double allowed = std::numeric_limits<double>::infinity();
  for (const SequenceView& of : view.sequences) {
    if (of.seconds_per_token <= 0) continue;
    const double late = TokensNeeded(of, 0);
    if (late > kHopelesslyLate) continue;
    allowed = std::min(allowed, (tokens - late) * of.seconds_per_token);
  }
  PlannedWork work{.rows = next.budget,
                   .requests = static_cast<int>(view.trees.size()),
                   .kv_tokens = view.kv_tokens,
                   .prefill_tokens = chunk,
                   .draft = next.draft};
  while (chunk > kPrefillGrid && worker_.costs.Seconds(work) > allowed) {
    chunk /= 2;
    work.prefill_tokens = chunk;
  }
  return std::max<int64_t>(
      chunk, std::min<int64_t>(view.prefill_tokens, kPrefillGrid));
}

// Those that fall behind first get what brings them back in time.
void GoodputPolicy::ChooseFloors(const RoundView& view,
                                 RoundChoice& choice) const {
  const int cap = bounds_.max_nodes_per_tree;
  std::vector<TreeBounds> bounds =
      FloorsFor(view, choice.predicted_seconds, choice.budget, cap,
                &history_->acceptance);
  for (size_t b = 0; b < choice.bounds.size(); ++b) {
    if (bounds[b].floor == 1) bounds[b].cap = choice.bounds[b].cap;
  }
  choice.bounds = std::move(bounds);
}

// What the trees that there are would bring as chains.
void GoodputPolicy::LearnOfChains(const RoundView& view) {
  std::vector<ProposalTree> chains;
  chains.reserve(view.trees.size());
  for (const ProposalTree& tree : view.trees) {
    chains.push_back(LikeliestChain(tree));
  }
  const auto requests = static_cast<int>(chains.size());
  std::vector<std::optional<DraftShape>> shapes =
      ShapesOf(options_.speculation, worker_.limits);
  std::reverse(shapes.begin(), shapes.end());  // The longest first.
  for (const std::optional<DraftShape>& shape : shapes) {
    if (!shape || shape->top_k > 1) continue;
    int most = 0;
    for (ProposalTree& chain : chains) {
      const int size = std::min(chain.size(), shape->depth + 1);
      chain.parent.resize(size);
      chain.token.resize(size);
      chain.log_rho.resize(size);
      most += size;
    }
    RoundView as_chains = view;
    as_chains.trees = chains;
    const GainCurve curve(as_chains, history_->acceptance);
    for (const int budget : worker_.costs.Borders(requests, most, 0)) {
      if (budget == requests) continue;
      const double each = requests;
      history_->forecast.ObserveGain(
          *shape, budget / each, curve.At(budget - requests) / each, requests);
    }
  }
}

void GoodputPolicy::ChooseBounds(const RoundView& view, double least_value,
                                 RoundChoice& choice) const {
  for (size_t b = 0; b < view.trees.size(); ++b) {
    const SequenceView& of = view.sequences[b];
    const ProposalTree& tree = view.trees[b];
    if (of.acceptance == nullptr || of.acceptance->factor() > kPoorFactor ||
        tree.size() == 1) {
      continue;
    }
    const float best_rho =
        *std::max_element(tree.log_rho.begin() + 1, tree.log_rho.end());
    const double value =
        history_->acceptance.ValueOf(1, Acceptance::BinOf(best_rho));
    if (of.acceptance->factor() * value >= least_value) continue;
    if (choice.bounds.empty()) {
      choice.bounds.assign(view.trees.size(),
                           {.cap = bounds_.max_nodes_per_tree});
    }
    choice.bounds[b].cap = 1;
  }
  choice.lease_bounds = choice.bounds;
}

RoundChoice GoodputPolicy::Choose(const RoundView& view) {
  const OfferedBatch batch = BatchOf(view);
  const auto [next, rate] = NextDraft(view, batch);
  RoundChoice choice{.draft = next.draft};
  if (!next.draft) {
    choice.defers_draft = worker_.can_defer;
    choice.off_reason = OffReason::kNotFaster;
  }
  if (!view.trees.empty()) {
    ChooseBudget(view, next, rate, choice);
    const double longest = std::max(choice.predicted_seconds, next.seconds);
    if (batch.lends && !trials_.on()) {
      choice.lease_rounds = std::min(
          next.lease_rounds, LeaseRounds(options_, worker_.limits, longest));
    }
    choice.lease_budget = next.budget;
  }
  drafted_ = choice.draft;
  tokens_of_round_ =
      static_cast<double>(view.trees.size()) * (1 + next.gain / batch.requests);
  const int64_t chunk =
      std::min({view.prefill_tokens, int64_t{choice.prefill_tokens},
                int64_t{worker_.limits.max_prefill_tokens}});
  if (chunk > 0 && !view.trees.empty()) prefills_.Shared(chunk);
  return choice;
}

void GoodputPolicy::Observe(const RoundReport& report) {
  ObserveCosts(report, worker_.costs);
  prefills_.Emitted(tokens_of_round_);
  for (const TreeReport& tree : report.trees) {
    if (tree.tree.size() > 1 && tree.acceptance != nullptr) {
      tree.acceptance->Observe(history_->acceptance.Promised(tree),
                               tree.accepted);
    } else if (tree.acceptance != nullptr) {
      tree.acceptance->Forget();
    }
    history_->forecast.Observe(tree);
    history_->acceptance.Observe(tree);
  }
  if (!report.trees.empty()) history_->acceptance.EndRound();
}

}  // namespace bole
