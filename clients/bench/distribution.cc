#include "clients/bench/distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/check.h"

namespace bole::bench {

Distribution::Distribution(std::vector<double> samples)
    : sorted_(std::move(samples)) {
  std::sort(sorted_.begin(), sorted_.end());
  sum_ = std::accumulate(sorted_.begin(), sorted_.end(), 0.0);
}

double Distribution::mean() const {
  return sorted_.empty() ? 0 : sum_ / static_cast<double>(sorted_.size());
}

double Distribution::Percentile(double percent) const {
  BOLE_CHECK(percent >= 0 && percent <= 100);
  if (sorted_.empty()) return 0;
  const double rank =
      std::ceil(percent * static_cast<double>(sorted_.size()) / 100);
  return sorted_[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace bole::bench
