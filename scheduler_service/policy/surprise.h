// Detects a change in a series of observations.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_SURPRISE_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_SURPRISE_H_

#include <algorithm>
#include <cmath>

namespace bole {

// Compares the last 50 or so observations with the mean of some 300.
//
// Not thread-safe.
class Surprise {
 public:
  // Returns whether they differ by more than chance explains, and starts over
  // if so. A mean that has moved by one standard deviation is noticed after
  // some 30 observations.
  bool Observe(double value) {
    constexpr double kKept = 0.98;
    constexpr double kLeastWeight = 1.0 / 300;
    constexpr double kDeviations = 4;
    constexpr int kLeast = 12;
    ++count_;
    const double off = value - mean_;
    mean_ += std::max(kLeastWeight, 1.0 / count_) * off;
    if (count_ <= kLeast) return false;  // Nothing is known yet.
    sum_ = kKept * sum_ + off;
    squares_ = kKept * squares_ + off * off;
    if (std::abs(sum_) <= kDeviations * std::sqrt(squares_)) return false;
    *this = {};
    return true;
  }

 private:
  int count_ = 0;
  double mean_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_SURPRISE_H_
