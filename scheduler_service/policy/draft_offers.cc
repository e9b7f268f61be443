#include "scheduler_service/policy/draft_offers.h"

#include <algorithm>
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
                  .seconds = {}};
    for (const int budget : priced.budgets) {
      priced.seconds.push_back(
          worker_.costs.Seconds(PlannedWork{.rows = budget,
                                            .requests = batch.requests,
                                            .kv_tokens = batch.kv_tokens,
                                            .draft = shape}));
    }
    priced_.push_back(std::move(priced));
  }
}

Offer DraftOffers::Best(size_t shape, const OfferedBatch& batch) {
  Offer best{.draft = shapes_[shape]};
  const Priced& priced = priced_[shape];
  for (size_t i = 0; i < priced.budgets.size(); ++i) {
    Offer offer{.draft = shapes_[shape],
                .budget = priced.budgets[i],
                .seconds = priced.seconds[i]};
    if (offer.draft && batch.open > 0) {
      const double nodes =
          1 + static_cast<double>(offer.budget - batch.requests) / batch.open;
      offer.gain = batch.open * forecast_.Gain(*offer.draft, nodes);
    }
    if (batch.lends) {
      offer.lease_rounds = LeaseRounds(options_, worker_.limits, offer.seconds);
    }
    const double seconds =
        offer.seconds + worker_.costs.trip_seconds() / offer.lease_rounds;
    if (seconds > 0) offer.rate = (batch.requests + offer.gain) / seconds;
    if (offer.rate > best.rate) best = offer;
  }
  return best;
}

const std::vector<Offer>& DraftOffers::For(const OfferedBatch& batch) {
  const bool is_like_before =
      priced_at_ == worker_.costs.version() &&
      priced_for_.requests == batch.requests &&
      priced_for_.open == batch.open &&
      std::abs(priced_for_.kv_tokens - batch.kv_tokens) <=
          std::max<int64_t>(priced_for_.kv_tokens / 16, 64);
  if (!is_like_before) Price(batch);
  offers_.clear();
  for (size_t shape = 0; shape < shapes_.size(); ++shape) {
    offers_.push_back(Best(shape, batch));
  }
  return offers_;
}

}  // namespace bole
