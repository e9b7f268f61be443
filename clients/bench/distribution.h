// Samples and their statistics.
#ifndef BOLE_CLIENTS_BENCH_DISTRIBUTION_H_
#define BOLE_CLIENTS_BENCH_DISTRIBUTION_H_

#include <cstddef>
#include <vector>

namespace bole::bench {

// All samples are kept, so that percentiles are exact.
class Distribution {
 public:
  Distribution() = default;
  explicit Distribution(std::vector<double> samples);

  size_t count() const { return sorted_.size(); }
  double sum() const { return sum_; }
  double mean() const;  // 0 without samples.

  // The least sample that at least `percent` of the samples do not exceed
  // (nearest rank); 0 without samples. REQUIRES: 0 <= percent <= 100.
  double Percentile(double percent) const;

  double max() const { return Percentile(100); }

  const std::vector<double>& sorted() const { return sorted_; }

 private:
  std::vector<double> sorted_;
  double sum_ = 0;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_DISTRIBUTION_H_
