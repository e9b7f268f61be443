// Times of many rounds, and where most of them lie.
#ifndef BOLE_TESTS_BENCH_SAMPLES_H_
#define BOLE_TESTS_BENCH_SAMPLES_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"

namespace bole {

inline double Microseconds(std::chrono::steady_clock::time_point from,
                           std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

class Samples {
 public:
  explicit Samples(std::string name) : name_(std::move(name)) {}

  void Add(double microseconds) { values_.push_back(microseconds); }
  void Reserve(size_t count) { values_.reserve(count); }
  void Clear() { values_.clear(); }
  size_t size() const { return values_.size(); }

  // The share `p` of all samples took at most this long. REQUIRES: something
  // was added.
  double Percentile(double p) const {
    BOLE_CHECK(!values_.empty());
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<size_t>(p *
                                      static_cast<double>(sorted.size() - 1))];
  }

  void Print() const {
    std::printf("  %-34s p50 %6.0f us   p99 %6.0f us\n", name_.c_str(),
                Percentile(0.5), Percentile(0.99));
  }

 private:
  const std::string name_;
  std::vector<double> values_;
};

}  // namespace bole

#endif  // BOLE_TESTS_BENCH_SAMPLES_H_
