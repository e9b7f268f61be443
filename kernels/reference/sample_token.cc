#include "kernels/reference/sample_token.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "common/gumbel.h"
#include "kernels/reference/count_tokens.h"
#include "kernels/reference/log_softmax.h"
#include "kernels/reference/token_filter.h"

namespace bole::reference {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

float Penalized(const SamplingControl& control, int32_t count, float logit) {
  if (count == 0) return logit;
  logit = logit > 0 ? logit / control.repetition_penalty
                    : logit * control.repetition_penalty;
  const int32_t times_in_output = count & (kPromptToken - 1);
  if (times_in_output > 0) {
    logit -= control.frequency_penalty * static_cast<float>(times_in_output);
    logit -= control.presence_penalty;
  }
  return logit;
}

// The best token so far, in a scan in any order.
struct Best {
  float value = kImpossible;
  int32_t token = 0;

  void Offer(float other_value, int32_t other) {
    if (other_value > value || (other_value == value && other < token)) {
      value = other_value;
      token = other;
    }
  }
};

}  // namespace

TokenDrawer::TokenDrawer(const SampleParams& params, int request)
    : params_(params),
      request_(request),
      control_(params.control[request]),
      logits_(params.num_valid_tokens) {
  if (!HasPenalties(control_)) return;
  if (params.batch.committed[request] == 0) {
    count_.assign(params.vocabulary, 0);
    return;
  }
  const int32_t* count =
      params.counts.count +
      static_cast<size_t>(params.batch.slot[request]) * params.vocabulary;
  count_.assign(count, count + params.vocabulary);
}

int32_t TokenDrawer::Draw(int row) {
  if (!count_.empty()) Remember(row);
  if (!AdjustLogits(row)) return kNoToken;
  const auto max = std::max_element(logits_.begin(), logits_.end());
  if (*max == kImpossible) return kNoToken;
  const bool is_greedy = control_.temperature == 0;
  if (is_greedy) return static_cast<int32_t>(max - logits_.begin());
  const uint64_t position = uint64_t{1} + params_.batch.committed[request_] +
                            params_.batch.depth[row];
  return HasFilters(control_) ? DrawFiltered(*max, position)
                              : DrawFromAll(*max, position);
}

void TokenDrawer::Remember(int row) {
  CountToken(control_,
             params_.batch.committed[request_] + params_.batch.depth[row],
             params_.token[row], count_.data());
}

bool TokenDrawer::AdjustLogits(int row) {
  const float* raw =
      params_.logits + static_cast<size_t>(row) * params_.vocabulary;
  const auto is_nan = [](float logit) { return std::isnan(logit); };
  if (std::any_of(raw, raw + logits_.size(), is_nan)) return false;
  std::transform(raw, raw + logits_.size(), logits_.begin(), CleanLogit);
  for (int i = params_.first_bias[request_];
       i < params_.first_bias[request_ + 1]; ++i) {
    const int32_t token = params_.bias_token[i];
    if (token < params_.num_valid_tokens) logits_[token] += params_.bias[i];
  }
  if (BansStops(row)) BanStops();
  if (count_.empty()) return true;
  for (size_t v = 0; v < logits_.size(); ++v) {
    logits_[v] = CleanLogit(Penalized(control_, count_[v], logits_[v]));
  }
  return true;
}

bool TokenDrawer::BansStops(int row) const {
  const int32_t num_output = 1 + params_.batch.committed[request_] +
                             params_.batch.depth[row] - control_.prompt_length;
  return std::max(num_output, 0) < control_.min_tokens;
}

void TokenDrawer::BanStops() {
  for (int i = params_.first_stop[request_];
       i < params_.first_stop[request_ + 1]; ++i) {
    const int32_t token = params_.stop_token[i];
    if (token < params_.num_valid_tokens) logits_[token] = kImpossible;
  }
}

int32_t TokenDrawer::DrawFromAll(float max, uint64_t position) const {
  Best best;
  const int32_t end = params_.num_valid_tokens;
  for (int32_t first = 0; first < end; first += kNoiseBlock) {
    const PhiloxCounter bits =
        NoiseBits(control_.seed, position, first / kNoiseBlock);
    const int count = std::min(kNoiseBlock, end - first);
    for (int i = 0; i < count; ++i) {
      const float score = (logits_[first + i] - max) / control_.temperature;
      best.Offer(score + GumbelFromBits(bits.word[i]), first + i);
    }
  }
  return best.token;
}

int32_t TokenDrawer::DrawFiltered(float max, uint64_t position) const {
  Best best;
  for (const TokenLogit& t : FilterTokens(logits_, max, control_)) {
    const float score = (t.logit - max) / control_.temperature;
    best.Offer(score + GumbelNoise(control_.seed, position, t.token), t.token);
  }
  return best.token;
}

}  // namespace bole::reference
