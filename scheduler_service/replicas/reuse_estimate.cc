#include "scheduler_service/replicas/reuse_estimate.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace bole {
namespace {

constexpr double kRemembered = 2000;

}  // namespace

size_t ReuseEstimate::ClassOf(uint64_t idle) {
  return std::min<size_t>(std::bit_width(idle), kNumClasses - 1);
}

void ReuseEstimate::CountFound(uint64_t idle) {
  ++found_[ClassOf(idle)];
  Forget();
}

void ReuseEstimate::CountGone() {
  ++gone_;
  Forget();
}

void ReuseEstimate::CountReturned(uint64_t idle) {
  gone_ = std::max(gone_ - 1, 0.0);
  CountFound(idle);
}

void ReuseEstimate::Forget() {
  if (std::accumulate(found_.begin(), found_.end(), gone_) < kRemembered) {
    return;
  }
  gone_ /= 2;
  for (double& count : found_) count /= 2;
}

double ReuseEstimate::ShareFound(uint64_t idle) const {
  const double later =
      std::accumulate(found_.begin() + ClassOf(idle), found_.end(), 1.0);
  return later / (later + gone_);
}

}  // namespace bole
