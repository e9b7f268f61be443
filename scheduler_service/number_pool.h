// Slots and pages as numbers: which are free, which are held.
#ifndef BOLE_SCHEDULER_SERVICE_NUMBER_POOL_H_
#define BOLE_SCHEDULER_SERVICE_NUMBER_POOL_H_

#include <vector>

#include "common/check.h"

namespace bole {

// The numbers 0 .. total - 1, each free or held. The bytes behind a number are
// the worker's. Not thread-safe. COST: O(1) each.
template <typename Id>
class NumberPool {
 public:
  explicit NumberPool(int total) : held_(total, false) {
    free_.reserve(total);
    for (int i = total; i > 0; --i) free_.emplace_back(i - 1);
  }

  int total() const { return static_cast<int>(held_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  bool IsHeld(Id id) const { return held_[id.value()]; }

  // The number that was given back last, or else the lowest.
  // REQUIRES: num_free() > 0.
  Id Take() {
    BOLE_CHECK(!free_.empty());
    const Id id = free_.back();
    free_.pop_back();
    held_[id.value()] = true;
    return id;
  }

  // REQUIRES: IsHeld(id).
  void Give(Id id) {
    BOLE_CHECK(IsHeld(id));
    held_[id.value()] = false;
    free_.push_back(id);
  }

 private:
  std::vector<Id> free_;
  std::vector<bool> held_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_NUMBER_POOL_H_
