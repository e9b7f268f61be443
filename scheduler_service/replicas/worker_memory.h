// Tracks who holds which slots and pages of one worker, by their numbers.
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
  int cached = 0;  // Held by the prefix cache alone: evictable.

  // How many a request can get.
  int available() const { return free + cached; }
};

// What a prefix cache keeps on the host of its worker. Counters only increase
// while the connection lasts.
struct HostStatus {
  PoolStatus slots = {};
  PoolStatus pages = {};
  int num_checkpoints = 0;
  int64_t num_evicted = 0;     // Checkpoints.
  int64_t num_hits = 0;        // Requests that continued from here.
  int64_t num_hit_tokens = 0;  // Tokens that these did not have to run.
  double bytes_to_host = 0;
  double bytes_from_host = 0;
};

class WorkerMemory;

// The exclusive right to a slot. The destructor gives it back. Must not outlive
// the memory.
class SlotLease {
 public:
  SlotLease(SlotLease&& other) noexcept;
  SlotLease& operator=(SlotLease&& other) noexcept;
  ~SlotLease();

  SlotId id() const { return id_; }

 private:
  friend class WorkerMemory;
  SlotLease(WorkerMemory& memory, SlotId id) : memory_(&memory), id_(id) {}

  WorkerMemory* memory_;  // Null after a move.
  SlotId id_;
};

// Who holds a page.
enum class PageHolder { kRequest, kCache };

// The right to some pages, in the order of their positions. Several leases may
// hold a page; rows that another holder relies on must not be written any more.
// The destructor gives the pages back. Must not outlive the memory.
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
  // has `count`.
  bool GrowTo(int count);
  // Another lease of the first `count` pages. REQUIRES: count <= size().
  PageLease Share(int count) const { return Share(0, count, holder_); }
  // Another lease of `count` pages, from index `first` on.
  // REQUIRES: first + count <= size().
  PageLease Share(int first, int count, PageHolder holder) const;
  // Keeps the first `count` pages, and returns a lease of the others.
  // REQUIRES: count <= size().
  PageLease SplitAt(int count);
  // Appends the pages of `other` to its own.
  // REQUIRES: `other` is for the same holder.
  void Append(PageLease other);

 private:
  WorkerMemory* memory_;
  PageHolder holder_;
  std::vector<PageId> ids_;
};

// What the holders claim to hold, for an audit: an entry for each lease and
// number.
struct MemoryReferences {
  std::vector<SlotId> slots;
  std::vector<PageId> pages;
};

// The numbers 0 .. n - 1 of slots and of pages, each with the count of its
// holders. The memory itself is on the worker.
//
// Not thread-safe. COST: O(1) for each slot and page.
class WorkerMemory {
 public:
  WorkerMemory(int num_slots, int num_pages);
  ~WorkerMemory();  // REQUIRES: no lease is left.

  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;

  // Takes the slot that was given back last, or else the lowest one. Returns
  // nothing if all are held.
  std::optional<SlotLease> TakeSlot();

  PoolStatus slots() const;
  PoolStatus pages() const;
  // Whether only the cache holds the page. REQUIRES: it is held.
  bool IsCacheOnly(PageId page) const { return pages_.IsCacheOnly(page); }
  // Whether exactly one request holds the page, perhaps besides the cache.
  // REQUIRES: it is held.
  bool HasOneRequest(PageId page) const { return pages_.HasOneRequest(page); }

  // Returns an empty string if every slot and page is free or held exactly as
  // often as `references` say, which list all holders; else what is wrong.
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
    // Count one holder more or less. REQUIRES: `id` is held; to return it, by
    // such a holder.
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
    std::vector<int> caches_;   // [total] The cache's share of `holders_`.
    int num_cache_only_ = 0;
  };

  Pool<SlotId> slots_;
  Pool<PageId> pages_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_WORKER_MEMORY_H_
