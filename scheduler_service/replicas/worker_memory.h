// The slots and pages of one worker, as numbers: who holds which.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_WORKER_MEMORY_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_WORKER_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"

namespace bole {

struct PoolStatus {
  int total = 0;
  int free = 0;
  int cached = 0;  // Held by the prefix cache alone, which gives them up.

  // For who needs them.
  int available() const { return free + cached; }
};

// What a prefix cache keeps on the host of its worker. Counts go up as long as
// the connection lasts.
struct HostStatus {
  PoolStatus slots = {};
  PoolStatus pages = {};
  int num_checkpoints = 0;
  int64_t num_evicted = 0;     // Checkpoints.
  int64_t num_hits = 0;        // Requests that went on from here.
  int64_t num_hit_tokens = 0;  // Which they need not have run.
  double bytes_to_host = 0;
  double bytes_from_host = 0;
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

// For whom a page is held.
enum class PageHolder { kRequest, kCache };

// The right to some pages, in the order of their positions. A page may be held
// by several leases; of its rows, those that anybody else counts on are not
// written any more. Given back by its destructor. Must not outlive the memory.
class PageLease {
 public:
  explicit PageLease(WorkerMemory& memory,
                     PageHolder holder = PageHolder::kRequest)
      : memory_(&memory), holder_(holder) {}
  PageLease(PageLease&& other) noexcept;
  PageLease& operator=(PageLease&& other) noexcept;
  ~PageLease();

  const std::vector<PageId>& ids() const { return ids_; }
  int size() const { return static_cast<int>(ids_.size()); }

  // Takes free pages until it has `count`, or none is free. Returns whether it
  // has as many.
  bool GrowTo(int count);
  // Another lease of the first `count` pages. REQUIRES: count <= size().
  PageLease Share(int count) const { return Share(0, count, holder_); }
  // Of the `count` pages from the first-th on.
  PageLease Share(int first, int count, PageHolder holder) const;
  // Keeps the first `count` pages, and returns a lease of the others.
  // REQUIRES: count <= size().
  PageLease SplitAt(int count);
  // Takes over the pages of `other` behind its own.
  // REQUIRES: it is for the same holder.
  void Append(PageLease other);

 private:
  WorkerMemory* memory_;
  PageHolder holder_;
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
  // Nobody but the cache holds it. REQUIRES: it is held.
  bool IsCacheOnly(PageId page) const { return pages_.IsCacheOnly(page); }
  // One request does, besides the cache perhaps. REQUIRES: the same.
  bool HasOneRequest(PageId page) const { return pages_.HasOneRequest(page); }

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
              .free = static_cast<int>(free_.size()),
              .cached = num_cache_only_};
    }
    Id Take();  // REQUIRES: one is free.
    // Once more, or once less. REQUIRES: it is held, by such a holder.
    void Hold(Id id, PageHolder holder = PageHolder::kRequest);
    void Return(Id id, PageHolder holder = PageHolder::kRequest);
    bool IsCacheOnly(Id id) const {
      const int holders = holders_[id.value()];
      return holders > 0 && holders == caches_[id.value()];
    }
    bool HasOneRequest(Id id) const {
      return holders_[id.value()] - caches_[id.value()] == 1;
    }
    std::string Audit(const char* what, const std::vector<Id>& held) const;

   private:
    void Change(Id id, PageHolder holder, int by);

    std::vector<Id> free_;
    std::vector<int> holders_;  // [total]
    std::vector<int> caches_;   // [total] Those of them that are the cache.
    int num_cache_only_ = 0;
  };

  Pool<SlotId> slots_;
  Pool<PageId> pages_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_WORKER_MEMORY_H_
