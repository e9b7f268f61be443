// Estimates how likely it is that a cached item is used again.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_REUSE_ESTIMATE_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_REUSE_ESTIMATE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace bole {

// Learns for one kind of items how long they were idle before they were found,
// and how many were evicted and never requested again. Idle times are in any
// unit and are classed by their logarithm. About the last 2,000 events count.
//
// Not thread-safe. COST: O(1) each.
class ReuseEstimate {
 public:
  // Begins as if `gone` items had been evicted already.
  explicit ReuseEstimate(double gone) : gone_(gone) {}

  void CountFound(uint64_t idle);
  void CountGone();
  // An item that was counted as gone is requested after all.
  void CountReturned(uint64_t idle);

  // The share, 0 to 1, of the items idle for this long that will be found.
  double ShareFound(uint64_t idle) const;

 private:
  static constexpr size_t kNumClasses = 20;

  static size_t ClassOf(uint64_t idle);
  void Forget();

  std::array<double, kNumClasses> found_{};
  double gone_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_REUSE_ESTIMATE_H_
