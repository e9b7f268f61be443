#ifndef BOLE_KERNELS_REFERENCE_LOG_SOFTMAX_H_
#define BOLE_KERNELS_REFERENCE_LOG_SOFTMAX_H_

#include <algorithm>
#include <limits>
#include <span>

namespace bole::reference {

// A logit that arithmetic can rely on: NaN counts as impossible, +inf as the
// largest float. Nothing a model computes may crash a sampler.
inline float CleanLogit(float logit) {
  constexpr float kImpossible = -std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  return logit > kImpossible ? std::min(logit, kLargest) : kImpossible;
}

// The log-softmax of one row, for the requested tokens. Every log probability
// is <= 0; all are -inf if no token is possible.
// COST: two passes over the row, in order, so that the bits depend on the row
// alone.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits);

  // `logit` is one of the row's.
  float LogProb(float logit) const;

 private:
  float max_;
  double log_sum_;  // Log of the sum of exp(logit - max_), >= 0.
};

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_LOG_SOFTMAX_H_
