#include "kernels/reference/log_softmax.h"

#include <cmath>

namespace bole::reference {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

}  // namespace

LogSoftmax::LogSoftmax(std::span<const float> logits)
    : max_(kImpossible), log_sum_(0) {
  for (const float logit : logits) max_ = std::max(max_, CleanLogit(logit));
  if (max_ == kImpossible) return;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(CleanLogit(logit) - max_);
  log_sum_ = std::log(sum);
}

float LogSoftmax::LogProb(float logit) const {
  const float clean = CleanLogit(logit);
  if (clean == kImpossible) return kImpossible;
  // Both terms are <= 0, and so is their rounded difference.
  return static_cast<float>(static_cast<double>(clean) - max_ - log_sum_);
}

}  // namespace bole::reference
