// How likely it is that something which was kept is used again.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_REUSE_ESTIMATE_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_REUSE_ESTIMATE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace bole {

// Learns for one kind of things how long they were idle before they were found,
// and how many went and were never asked for. Idle times are in any unit; they
// are told apart by their logarithm. The last 2,000 or so are remembered.
//
// Not thread-safe. COST: O(1) each.
class ReuseEstimate {
 public:
  // As if so many had gone already.
  explicit ReuseEstimate(double gone) : gone_(gone) {}

  void CountFound(uint64_t idle);
  void CountGone();
  // One that was counted as gone is asked for after all.
  void CountReturned(uint64_t idle);

  // Of those that have been idle for so long: how many will be found, 0 to 1.
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
