// Hashes of prefixes that are in no cache any more.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_GHOST_LIST_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_GHOST_LIST_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"

namespace bole {

// Remembers the last `capacity` prefixes that were added, and a number for
// each. If two prefixes have the same hash, the reported reason of a miss is
// wrong, nothing worse.
//
// Not thread-safe. COST: O(1) each.
class GhostList {
 public:
  explicit GhostList(size_t capacity) : capacity_(capacity) {}

  void Add(uint64_t prefix, uint64_t number) {
    if (capacity_ == 0) return;
    if (ghosts_.insert_or_assign(prefix, number).second) {
      order_.push_back(prefix);
    }
    if (order_.size() <= capacity_) return;
    ghosts_.erase(order_.front());
    order_.pop_front();
  }
  // The number of the prefix; null if it is not known.
  const uint64_t* Find(uint64_t prefix) const {
    const auto found = ghosts_.find(prefix);
    return found == ghosts_.end() ? nullptr : &found->second;
  }

 private:
  const size_t capacity_;
  absl::flat_hash_map<uint64_t, uint64_t> ghosts_;
  std::deque<uint64_t> order_;  // Oldest first; one for each ghost.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_GHOST_LIST_H_
