#include "scheduler_service/policy/draft_offers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "scheduler_service/policy/cost_model.h"

namespace bole {

std::vector<std::optional<DraftShape>> ShapesOf(const Speculation& speculation,
                                                const StepLimits& limits) {
  std::vector<std::optional<DraftShape>> shapes = {std::nullopt};
  if (speculation.mode == SpeculationMode::kOff) return shapes;
  const int depth = std::min(speculation.shape.depth, limits.max_draft.depth);
  const int top_k = std::min(speculation.shape.top_k, limits.max_draft.top_k);
  for (const int of : {3, 5, 8}) {
    const DraftShape chain{.top_k = 1, .depth = std::min(of, depth)};
    if (shapes.back() != chain) shapes.emplace_back(chain);
  }
  if (speculation.mode == SpeculationMode::kTree && top_k > 1) {
    shapes.emplace_back(DraftShape{.top_k = top_k, .depth = depth});
  }
  return shapes;
}

int WorthwhileLease(const Offer& offer, const OfferedBatch& batch,
                    double trip_seconds, int most) {
  // The chance per token that an answer ends before its known limit.
  constexpr double kEndsByItself = 1.0 / 2048;
  const double tokens = 1 + offer.gain / batch.requests;
  const auto known = static_cast<int>(std::ssize(batch.tokens_left));
  int best = 1;
  double best_rate = 0;
  for (int rounds = 1; rounds <= most; ++rounds) {
    double used = (batch.requests - known) * rounds;  // Request-rounds.
    for (const int left : batch.tokens_left) {
      used += std::min<double>(rounds, std::ceil(std::max(left, 1) / tokens));
    }
    used *= std::max(1 - kEndsByItself * tokens * (rounds - 1) / 2, 0.0);
    const double rate = used / (rounds * offer.seconds + trip_seconds);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = rounds;
  }
  return best;
}

DraftOffers::DraftOffers(const PolicyOptions& options,
                         const CalibratedWorker& worker,
                         DraftForecast& forecast)
    : options_(options),
      worker_(worker),
      shapes_(ShapesOf(options.speculation, worker.limits)),
      forecast_(forecast) {}

void DraftOffers::Price(const OfferedBatch& batch) {
  priced_for_ = batch;
  priced_at_ = worker_.costs.version();
  priced_.clear();
  for (const std::optional<DraftShape>& shape : shapes_) {
    int64_t most = batch.requests;
    if (shape) {
      const int of_tree = std::min(shape->num_candidates(),
                                   worker_.limits.max_nodes_per_tree - 1);
      most = std::min<int64_t>(most + int64_t{batch.open} * of_tree,
                               worker_.limits.max_nodes);
    }
    Priced priced{.budgets = worker_.costs.Borders(batch.requests,
                                                   static_cast<int>(most), 0),
                  .seconds = {},
                  .stalls = {}};
    PlannedWork work{.requests = batch.requests,
                     .kv_tokens = batch.kv_tokens,
                     .draft = shape};
    if (batch.is_mixed) work.drafted = batch.open;
    for (const int budget : priced.budgets) {
      work.rows = budget;
      work.prefill_tokens = 0;
      const double seconds = worker_.costs.Seconds(work);
      work.prefill_tokens = batch.chunk_tokens;
      const double shared = worker_.costs.Seconds(work);
      priced.seconds.push_back(seconds);
      priced.stalls.push_back(std::max(shared - seconds, 0.0));
    }
    priced_.push_back(std::move(priced));
  }
}

double DraftOffers::RateOf(const Offer& offer,
                           const OfferedBatch& batch) const {
  const double tokens = batch.requests + offer.gain;
  const double seconds = offer.seconds +
                         worker_.costs.trip_seconds() / offer.lease_rounds +
                         batch.chunks_per_token * tokens * offer.stall;
  return seconds > 0 ? tokens / seconds : 0;
}

Offer DraftOffers::OfferAt(size_t shape, size_t i,
                           const OfferedBatch& batch) const {
  const Priced& priced = priced_[shape];
  Offer offer{.draft = shapes_[shape],
              .budget = priced.budgets[i],
              .seconds = priced.seconds[i],
              .stall = priced.stalls[i]};
  if (batch.is_mixed) offer.drafted = batch.open;
  if (batch.lends && !(offer.draft && batch.is_mixed)) {
    offer.lease_rounds = LeaseRounds(options_, worker_.limits, offer.seconds);
  }
  return offer;
}

Offer DraftOffers::Best(size_t shape, const OfferedBatch& batch) {
  Offer best{.draft = shapes_[shape]};
  for (size_t i = 0; i < priced_[shape].budgets.size(); ++i) {
    Offer offer = OfferAt(shape, i, batch);
    if (offer.draft && batch.open > 0) {
      const double nodes =
          1 + static_cast<double>(offer.budget - batch.requests) / batch.open;
      offer.gain = batch.open * forecast_.Gain(*offer.draft, nodes);
    }
    offer.rate = RateOf(offer, batch);
    if (offer.rate > best.rate) best = offer;
  }
  best.lease_rounds = WorthwhileLease(best, batch, worker_.costs.trip_seconds(),
                                      best.lease_rounds);
  best.rate = RateOf(best, batch);
  return best;
}

double DraftOffers::RateIf(double chance) const {
  double best = 0;
  for (size_t shape = 1; shape < shapes_.size(); ++shape) {
    for (size_t i = 0; i < priced_[shape].budgets.size(); ++i) {
      Offer offer = OfferAt(shape, i, batch_);
      double drafts =
          static_cast<double>(offer.budget - batch_.requests) / batch_.open;
      drafts = std::min<double>(drafts, shapes_[shape]->depth);
      double likely = batch_.open;
      while (drafts > 0) {
        likely *= chance;
        offer.gain += likely * std::min(drafts, 1.0);
        drafts -= 1;
      }
      best = std::max(best, RateOf(offer, batch_));
    }
  }
  return best;
}

const std::vector<Offer>& DraftOffers::For(const OfferedBatch& batch) {
  const bool is_like_before =
      priced_at_ == worker_.costs.version() &&
      priced_for_.requests == batch.requests &&
      priced_for_.open == batch.open &&
      priced_for_.is_mixed == batch.is_mixed &&
      priced_for_.chunk_tokens == batch.chunk_tokens &&
      std::abs(priced_for_.kv_tokens - batch.kv_tokens) <=
          std::max<int64_t>(priced_for_.kv_tokens / 16, 64);
  if (!is_like_before) Price(batch);
  batch_ = batch;
  offers_.clear();
  for (size_t shape = 0; shape < shapes_.size(); ++shape) {
    offers_.push_back(Best(shape, batch));
  }
  return offers_;
}

}  // namespace bole
