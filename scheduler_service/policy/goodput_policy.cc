// The part of the goodput policy that decides what is drafted next and what is
// verified now. Which requests the drafter follows is decided in
// goodput_policy_following.cc. That is a separate question, but it depends on
// the same offers, costs and trials, so it is part of the same class.
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

// The factor by which drafting has to be faster than plain decoding, by the
// predicted rates.
constexpr double kMargin = 1.02;
// The factor by which another shape has to be faster than that of the last
// plan.
constexpr double kReasonToChange = 1.01;
// A request whose drafts are accepted less often than this share of what they
// promise may be verified without drafts.
constexpr double kPoorFactor = 0.7;
// A request that is more than this many tokens behind its target is given up.
constexpr double kHopelesslyLate = 32;
// One of this many rounds with trees is also evaluated as if it had chains.
constexpr int kRoundsOfChains = 4;

// Whether the likeliest child of the root was the next token, verified or not.
bool IsFirstRight(const TreeReport& report) {
  const ProposalTree& tree = report.tree;
  int likeliest = 1;
  for (int i = 2; i < tree.size(); ++i) {
    if (tree.parent[i] == 0 && tree.log_rho[i] > tree.log_rho[likeliest]) {
      likeliest = i;
    }
  }
  return tree.token[likeliest] == report.emitted.front();
}

}  // namespace

GoodputPolicy::GoodputPolicy(const PolicyOptions& options,
                             CalibratedWorker worker,
                             std::shared_ptr<DraftHistory> history)
    : options_(options),
      worker_(std::move(worker)),
      history_(std::move(history)),
      bounds_(WidestBounds(ShapesOf(options.speculation, worker_.limits),
                           worker_.limits)),
      offers_(options, worker_, history_->forecast),
      whole_offers_(options, worker_, history_->forecast),
      alone_offers_(options, worker_, history_->forecast) {}

const Offer& GoodputPolicy::BestOf(const std::vector<Offer>& offers) const {
  const auto score = [this](const Offer& offer) {
    // For a worker that cannot stop drafting, only drafts are compared.
    if (!offer.draft) return worker_.can_defer ? kMargin * offer.rate : -1;
    return offer.rate * (offer.draft == drafted_ ? kReasonToChange : 1);
  };
  const Offer* best = &offers.front();
  for (const Offer& offer : offers) {
    if (score(offer) > score(*best)) best = &offer;
  }
  return *best;
}

GoodputPolicy::Next GoodputPolicy::NextDraft(const OfferedBatch& batch) {
  const std::vector<Offer>& offers = offers_.For(batch);
  if (batch.open == 0 || is_hopeless_) {
    trials_.Stop();
    return {.draft = offers.front(), .rate = offers.front().rate};
  }
  const Offer& best = BestOf(offers);
  const Offer& other = ToTry(offers, best);
  if (best.draft != best_draft_) trials_.Changed();
  best_draft_ = best.draft;
  const bool was_on = trials_.on();
  bool begins = false;
  const bool goes_well =
      !best.draft && tried_trees_ > 0 &&
      whole_offers_.RateIf(static_cast<double>(tried_right_) /
                           static_cast<double>(tried_trees_)) > plain_rate_;
  const bool tries = trials_.Tries(best, other, goes_well, begins);
  if (begins) {
    tried_ = other.draft;
    tried_trees_ = 0;
    tried_right_ = 0;
  }
  if (begins && !best.draft) history_->forecast.Doubt();
  if (was_on && !tries) following_.Tried();
  return {.draft = tries ? other : best, .rate = best.rate};
}

// The offer to try instead of `best`: the widest shape, which teaches about all
// others, or the second-best one, which costs little to try.
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
                   .draft = next.draft,
                   .drafted = next.drafted};
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

// As many prefill tokens as the requests with targets can wait for: they still
// meet their targets after the round if it brings them as many tokens as a
// round of `next`. Requests that are far behind do not count.
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
                   .draft = next.draft,
                   .drafted = next.drafted};
  while (chunk > kPrefillGrid && worker_.costs.Seconds(work) > allowed) {
    chunk /= 2;
    work.prefill_tokens = chunk;
  }
  return std::max<int64_t>(
      chunk, std::min<int64_t>(view.prefill_tokens, kPrefillGrid));
}

// Requests that fall behind their targets get the nodes that bring them back in
// time before the others get any.
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

// Learns what the current trees would bring if they were chains.
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
  trials_.Earn(view.now);
  const Following::Decision follow = Follow(view);
  const OfferedBatch batch = BatchOf(view, follow.arrivals);
  const auto [next, rate] = NextDraft(batch);
  RoundChoice choice{.draft = next.draft, .followed_arrivals = follow.arrivals};
  if (!next.draft) {
    choice.defers_draft = worker_.can_defer && follow.keeps_up;
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
  drafted_for_some_ = batch.is_mixed && choice.draft;
  tokens_of_round_ =
      static_cast<double>(view.trees.size()) * (1 + next.gain / batch.requests);
  const int64_t chunk =
      std::min({view.prefill_tokens, int64_t{choice.prefill_tokens},
                int64_t{worker_.limits.max_prefill_tokens}});
  if (chunk > 0 && !view.trees.empty()) prefills_.Shared(chunk);
  return choice;
}

void GoodputPolicy::LearnFrom(const TreeReport& tree) {
  history_->forecast.Observe(tree);
  history_->acceptance.Observe(tree);
  if (tree.tree.size() == 1) return;
  ++history_->trees;
  ++tried_trees_;
  const bool is_right = IsFirstRight(tree);
  tried_right_ += is_right ? 1 : 0;
  // What the forecast has learnt no longer applies to the current drafts.
  if (surprise_.Observe(is_right ? 1 : 0)) history_->forecast = {};
}

void GoodputPolicy::Observe(const RoundReport& report) {
  // The cost model does not cover rounds that draft for some requests only.
  if (!drafted_for_some_) ObserveCosts(report, worker_.costs);
  prefills_.Emitted(tokens_of_round_);
  for (const TreeReport& tree : report.trees) {
    if (tree.tree.size() > 1 && tree.acceptance != nullptr) {
      tree.acceptance->Observe(history_->acceptance.Promised(tree),
                               tree.accepted);
    } else if (tree.acceptance != nullptr) {
      tree.acceptance->Forget();
    }
    LearnFrom(tree);
  }
  if (!report.trees.empty()) history_->acceptance.EndRound();
}

}  // namespace bole
