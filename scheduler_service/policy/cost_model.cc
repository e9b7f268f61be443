#include "scheduler_service/policy/cost_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

namespace bole {
namespace {

// A ratio counts as e^0.5 = 1.6 at most.
constexpr double kMostOff = 0.5;
constexpr double kFactorWeight = 0.03;  // The latest round's weight.
constexpr double kBucketWeight = 0.05;
constexpr double kMaxBucketLog = 0.12;  // A kind is 1.13 times off at most.
constexpr double kMaxFactorLog = 3;
constexpr double kTripWeight = 0.02;

double& Of(RoundQuantities& quantities, Quantity quantity) {
  return quantities[static_cast<size_t>(quantity)];
}
double Of(const RoundQuantities& quantities, Quantity quantity) {
  return quantities[static_cast<size_t>(quantity)];
}

// The smallest bucket that holds `count`; if there is none, `count`.
double Pad(double count, const std::vector<int>& buckets) {
  const auto at = std::lower_bound(buckets.begin(), buckets.end(), count);
  return count == 0 || at == buckets.end() ? count : *at;
}

void Approach(double target, double weight, double bound, double& value) {
  value = std::clamp(value + weight * target, -bound, bound);
}

}  // namespace

RoundQuantities QuantitiesOf(const PlannedWork& work) {
  RoundQuantities quantities{};
  Of(quantities, Quantity::kRows) = work.rows;
  Of(quantities, Quantity::kRequests) = work.requests;
  Of(quantities, Quantity::kKvTokens) = static_cast<double>(work.kv_tokens);
  const auto prefill_tokens = static_cast<double>(work.prefill_tokens);
  Of(quantities, Quantity::kPrefillTokens) = prefill_tokens;
  Of(quantities, Quantity::kForwardRows) = work.rows + prefill_tokens;
  Of(quantities, Quantity::kDraftRows) = work.rows - work.requests;
  if (work.draft) {
    Of(quantities, Quantity::kDraftTopK) = work.draft->top_k;
    Of(quantities, Quantity::kDraftDepth) = work.draft->depth;
  }
  Of(quantities, Quantity::kTailTokens) = static_cast<double>(work.tail_tokens);
  return quantities;
}

CostModel::CostModel(std::shared_ptr<const CostTable> table,
                     std::vector<int> row_buckets)
    : table_(std::move(table)),
      row_buckets_(std::move(row_buckets)),
      trip_seconds_(table_->round_trip_seconds) {}

RoundQuantities CostModel::Padded(RoundQuantities quantities) const {
  double& rows = Of(quantities, Quantity::kRows);
  double& forward_rows = Of(quantities, Quantity::kForwardRows);
  rows = Pad(rows, row_buckets_);
  forward_rows = Pad(forward_rows, row_buckets_);
  return quantities;
}

CostModel::Bucket CostModel::BucketOf(const RoundQuantities& padded) const {
  Kind kind = kPlain;
  if (Of(padded, Quantity::kPrefillTokens) > 0) {
    kind = kChunk;
  } else if (Of(padded, Quantity::kDraftDepth) > 0) {
    kind = kDraft;
  } else if (Of(padded, Quantity::kDraftRows) > 0) {
    kind = kTree;
  }
  int rows = static_cast<int>(Of(padded, Quantity::kForwardRows));
  // If rows are not padded, numbers of rows up to the same power of two are one
  // kind.
  if (row_buckets_.empty()) {
    rows = static_cast<int>(std::ceil(std::log2(std::max(rows, 1))));
  }
  if (kind != kDraft) return {kind, 0, 0, rows};
  return {kind, static_cast<int>(Of(padded, Quantity::kDraftTopK)),
          static_cast<int>(Of(padded, Quantity::kDraftDepth)), rows};
}

double CostModel::LogFactor(const Bucket& bucket) const {
  const auto at = log_of_bucket_.find(bucket);
  return log_factor_ + (at == log_of_bucket_.end() ? 0 : at->second);
}

double CostModel::Seconds(const RoundQuantities& quantities) const {
  const RoundQuantities padded = Padded(quantities);
  // A table that pads by itself may depend on the actual number of rows.
  const std::chrono::duration<double> seconds = table_->costs.TimeOf(
      table_->costs.row_buckets().empty() ? padded : quantities);
  return seconds.count() * std::exp(LogFactor(BucketOf(padded)));
}

double CostModel::Seconds(const PlannedWork& work) const {
  if (!work.draft || !work.drafted || *work.drafted >= work.requests) {
    return Seconds(QuantitiesOf(work));
  }
  PlannedWork plain = work;
  plain.draft.reset();
  const int drafted = std::max(*work.drafted, 1);
  PlannedWork own{.rows = drafted,
                  .requests = drafted,
                  .kv_tokens = work.kv_tokens * drafted / work.requests};
  const double without = Seconds(QuantitiesOf(own));
  own.draft = work.draft;
  return Seconds(QuantitiesOf(plain)) +
         std::max(Seconds(QuantitiesOf(own)) - without, 0.0);
}

double CostModel::factor() const { return std::exp(log_factor_); }

std::vector<int> CostModel::Borders(int least, int most, int64_t rest) const {
  std::vector<int> borders = {least};
  const auto add = [&](int64_t border) {
    if (border > borders.back() && border < most) {
      borders.push_back(static_cast<int>(border));
    }
  };
  if (row_buckets_.empty()) {
    for (const int share : {2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 32, 48, 64, 96}) {
      add(int64_t{share} * least);
    }
  }
  for (const int bucket : row_buckets_) add(bucket - rest);
  if (most > least) borders.push_back(most);
  return borders;
}

void CostModel::Observe(const RoundQuantities& quantities, double seconds) {
  const double predicted = Seconds(quantities);
  if (predicted <= 0) return;
  const double off =
      std::clamp(std::log(seconds / predicted), -kMostOff, kMostOff);
  Approach(off, kFactorWeight, kMaxFactorLog, log_factor_);
  Approach(off, kBucketWeight, kMaxBucketLog,
           log_of_bucket_[BucketOf(Padded(quantities))]);
  change_ += (kFactorWeight + kBucketWeight) * off;
  if (std::abs(change_) < 0.01) return;
  change_ = 0;
  ++version_;
}

void CostModel::ObserveTrip(double seconds) {
  // A trip that waited for something else counts as at most about twice as
  // long.
  const double counted =
      std::clamp(seconds, table_->round_trip_seconds, 2 * trip_seconds_ + 1e-4);
  trip_seconds_ += kTripWeight * (counted - trip_seconds_);
}

}  // namespace bole
