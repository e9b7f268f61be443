// The slots and pages of one worker, as numbers: who holds which.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_WORKER_MEMORY_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_WORKER_MEMORY_H_

#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"

namespace bole {

struct PoolStatus {
  int total = 0;
  int free = 0;
};

class WorkerMemory;

// The right to a slot, which nobody else has. Given back by its destructor.
// Must not outlive the memory.
class SlotLease {
 public:
  SlotLease(SlotLease&& other) noexcept;
  SlotLease& operator=(SlotLease&& other) noexcept;
  ~SlotLease();

  SlotId id() const { return id_; }

 private:
  friend class WorkerMemory;
  SlotLease(WorkerMemory& memory, SlotId id) : memory_(&memory), id_(id) {}

  WorkerMemory* memory_;  // Null: moved from.
  SlotId id_;
};

// The right to some pages, in the order of their positions. A page may be held
// by several leases; whoever writes holds it alone. Given back by its
// destructor. Must not outlive the memory.
class PageLease {
 public:
  explicit PageLease(WorkerMemory& memory) : memory_(&memory) {}
  PageLease(PageLease&& other) noexcept;
  PageLease& operator=(PageLease&& other) noexcept;
  ~PageLease();

  const std::vector<PageId>& ids() const { return ids_; }
  int size() const { return static_cast<int>(ids_.size()); }

  // Takes free pages until it has `count`, or none is free. Returns whether it
  // has as many.
  bool GrowTo(int count);
  // Another lease of the first `count` pages. REQUIRES: count <= size().
  PageLease Share(int count) const;

 private:
  WorkerMemory* memory_;
  std::vector<PageId> ids_;
};

// What somebody says to hold, for an audit: an entry for each lease and number.
struct MemoryReferences {
  std::vector<SlotId> slots;
  std::vector<PageId> pages;
};

// The numbers 0 .. n - 1 of slots and of pages, each with the count of its
// holders. The bytes behind them are the worker's.
//
// Not thread-safe. COST: O(1) for each slot and page.
class WorkerMemory {
 public:
  WorkerMemory(int num_slots, int num_pages);
  ~WorkerMemory();  // REQUIRES: no lease is left.

  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;

  // The slot that was given back last, or else the lowest; none if all are
  // held.
  std::optional<SlotLease> TakeSlot();

  PoolStatus slots() const;
  PoolStatus pages() const;

  // Empty if every slot and page is free or held exactly as often as
  // `references` say, who are all that there are; else what is wrong.
  // COST: O(slots + pages + references).
  std::string Audit(const MemoryReferences& references) const;

 private:
  friend class SlotLease;
  friend class PageLease;

  template <typename Id>
  class Pool {
   public:
    explicit Pool(int total);

    PoolStatus status() const {
      return {.total = static_cast<int>(holders_.size()),
              .free = static_cast<int>(free_.size())};
    }
    Id Take();           // REQUIRES: one is free.
    void Hold(Id id);    // Once more. REQUIRES: it is held.
    void Return(Id id);  // REQUIRES: it is held.
    std::string Audit(const char* what, const std::vector<Id>& held) const;

   private:
    std::vector<Id> free_;
    std::vector<int> holders_;  // [total]
  };

  Pool<SlotId> slots_;
  Pool<PageId> pages_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_WORKER_MEMORY_H_
