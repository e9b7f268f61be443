// What a worker keeps of texts, for others that begin alike.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler_service/replicas/cache_query.h"
#include "scheduler_service/replicas/ghost_list.h"
#include "scheduler_service/replicas/radix_tree.h"
#include "scheduler_service/replicas/reuse_estimate.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

enum class Eviction {
  kCostPerByte,  // What would have to be computed again, by byte, with ageing.
  kLru,          // To compare with: what was not used for longest.
};

struct PrefixCacheOptions {
  int page_size = 64;
  // The memory of a slot and of a page, in any unit. What is scarce may weigh
  // more.
  double slot_bytes = 1;
  double page_bytes = 1;
  // How much longer a token takes for each token before it, of its time without
  // any. 16 heads of 256 beside 8e9 weights, in 8 of 32 layers: 8e-6.
  double context_cost = 1e-5;
  Eviction eviction = Eviction::kCostPerByte;
  // Pages are not replaced by equal ones that the drafter has seen.
  bool keeps_pages = false;
  size_t max_ghosts = 1 << 14;
};

// A tree of tokens with their pages, and checkpoints of states at some of their
// positions. A hit is both: the pages of the first L tokens, and a checkpoint
// at L. Pages are kept as long as a checkpoint needs them.
//
// The cache takes what it is given, and gives it back when somebody needs it
// (FreeSlots(), FreePages()). Who is to go first is said by GreedyDual-Size
// with frequencies: priority = age + worth / bytes, where the worth of a
// checkpoint is the time that a hit saves beyond the next shallower one, times
// how often it was found and how likely another time seems. That is learnt, for
// three kinds: what nobody has found yet, at the end of a text or within one,
// and what was found, which the next turn of a conversation leaves behind.
// Those that went count as found when a text comes that would have found them.
// The age is the priority of the last one that went.
//
// Not thread-safe. COST: where none is given, O(1).
class PrefixCache {
 public:
  // `memory` must outlive it.
  PrefixCache(WorkerMemory& memory, const PrefixCacheOptions& options);
  ~PrefixCache();

  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Match {
    int position = 0;  // Tokens that need not be run; 0: none.
    MissReason reason = MissReason::kNone;  // Why they are not more.
    // Where a checkpoint should be made while the rest is prefilled, because
    // two texts have parted there. On the grid.
    std::optional<int> wish = {};
  };
  // As if it had a checkpoint at `known` as well. COST: O(tokens).
  Match Look(const CacheQuery& query, int known = 0) const;

  struct Hit {
    CheckpointFacts from;  // position 0: there is none.
    // Those of positions [0, from.position). The request may write none of
    // them: it copies the ones from `first_written` on, of which there are none
    // if the tokens fill their pages and the drafter has seen them.
    std::optional<PageLease> pages = {};
    int first_written = 0;  // Page index.
    // The checkpoint is not evicted while somebody holds this.
    std::shared_ptr<const SlotLease> slot = {};
    // Slot and pages are places of the host (HostTier). What the request need
    // not copy are then these pages of the device, `first_written` of them.
    bool on_host = false;
    std::optional<PageLease> shared = {};

    // Those that the drafter has to be shown before it can go on: what it had
    // not seen, and the last one, beside the token that follows it now. That
    // entry lies beyond the checkpoint's.
    int num_undrafted() const { return std::max(from.num_undrafted, 1); }
  };
  // The same, and counts as its use. COST: O(tokens).
  Hit Take(const CacheQuery& query);
  // The text goes on from elsewhere: what went and would have been found counts
  // as found. COST: O(tokens).
  void Miss(const CacheQuery& query);
  // Its pages of the first tokens, at most `most`, for a request; if `drafted`,
  // those alone that the drafter has seen. COST: O(tokens).
  PageLease Known(const std::string& key, std::span<const int32_t> tokens,
                  int most, bool drafted) const {
    return tree_.Known(key, tokens, most, drafted);
  }

  // A request leaves its slot: it becomes a checkpoint. Ignored, and given
  // back, if there is one like it. `pages` has those of all its positions.
  // Returns the slot, as a hit has it; null if it was ignored.
  // COST: O(tokens).
  std::shared_ptr<const SlotLease> Add(const std::string& key,
                                       std::span<const int32_t> tokens,
                                       const PageLease& pages, SlotLease slot,
                                       const CheckpointFacts& facts);
  // The position of the next shallower one, were it added; none: Add() would
  // ignore it. COST: O(tokens).
  std::optional<int> AboveOf(const std::string& key,
                             std::span<const int32_t> tokens,
                             const CheckpointFacts& facts) const;
  // A checkpoint that was coming is there. COST: O(checkpoints).
  void Arrived(const SlotLease& slot);
  // A slot for a checkpoint, to be copied to, of a text of which `known` tokens
  // have one already: one that is free, or that of a checkpoint which is worth
  // less. None if all are worth more. As many pages are then free, too.
  std::optional<SlotLease> SlotFor(int known, int position, int num_pages = 0);

  // Somebody looks at what goes before it does, be it for its slot or for its
  // pages. Nobody does if it is null.
  struct Leaving {
    const std::string& key;
    std::span<const int32_t> tokens;  // facts.position of them.
    const Hit& hit;                   // As for who goes on from it.
  };
  using OnEvict = std::function<void(const Leaving&)>;
  void set_on_evict(OnEvict on_evict) { on_evict_ = std::move(on_evict); }
  // All that is idle goes, and nobody looks at it.
  void DropIdle();

  // Evict until so many are free. Return whether they are: false if nothing is
  // left that nobody uses. COST: O(checkpoints) for each that goes.
  bool FreeSlots(int count);
  bool FreePages(int count);

  // Slots that FreeSlots() could free.
  int num_idle_slots() const;  // COST: O(checkpoints).
  int num_checkpoints() const { return static_cast<int>(all_.size()); }
  int64_t num_evicted() const { return num_evicted_; }

  void AddReferences(MemoryReferences& references) const;
  // Empty, or what is wrong. COST: O(checkpoints^2 * depth), for tests.
  std::string Audit() const;

 private:
  struct Checkpoint : PrefixMark {
    Checkpoint(WorkerMemory& memory, const CheckpointFacts& of, SlotLease lease)
        : PrefixMark(memory, of.position),
          facts(of),
          slot(std::make_shared<const SlotLease>(std::move(lease))) {}

    CheckpointFacts facts;
    std::shared_ptr<const SlotLease> slot;
    // The next shallower checkpoint on its path, and those of which it is that.
    Checkpoint* above = nullptr;
    std::vector<Checkpoint*> below = {};
    double age = 0;  // Of the cache, when it was used last.
    uint64_t used = 0;
    int hits = 0;
    // The end of a text that went on from it was evicted: who would have found
    // that finds this.
    bool is_heir = false;
    // Of the tokens up to the last grid position; 0: there are none.
    uint64_t prefix = 0;
    std::list<Checkpoint>::iterator self = {};

    bool is_idle() const { return slot.use_count() == 1; }
  };
  struct Found {
    Checkpoint* best = nullptr;
    int in_pages = 0;  // Tokens for which there are pages.
  };

  Found Find(const CacheQuery& query) const;
  Hit HitOf(const Checkpoint& checkpoint) const;
  // All on the path of the tokens.
  std::vector<Checkpoint*> OnPath(const std::string& key,
                                  std::span<const int32_t> tokens) const;
  static bool MayReplace(const Checkpoint& other, const CheckpointFacts& by);
  // Those that nobody has found yet at the end of a text; within one; those
  // that were found.
  static constexpr size_t kNumKinds = 3;
  static size_t KindOf(const Checkpoint& checkpoint);
  // The text would have found one that went.
  void CountGhost(const CacheQuery& query, int known);
  MissReason ReasonFor(const CacheQuery& query, int in_pages, int least) const;
  double SecondsFor(int from, int to) const;
  // Of a slot for `position`, and of the pages that token `first` and those
  // behind it have up to there.
  double BytesFrom(int first, int position) const;
  double PriorityOf(const Checkpoint& checkpoint) const;
  void Link(Checkpoint& made, const std::vector<Checkpoint*>& on_path);
  void Evict(Checkpoint& checkpoint);
  void Drop(Checkpoint& checkpoint);
  // The one that goes first, of those that are idle and `may_go`.
  Checkpoint* First(const std::function<bool(const Checkpoint&)>& may_go) const;
  Checkpoint* FirstForSlots() const;
  Checkpoint* FirstForPages() const;

  WorkerMemory& memory_;
  const PrefixCacheOptions options_;
  RadixTree tree_;
  std::list<Checkpoint> all_;  // In the order of their making.
  double age_ = 0;
  // A guess, until more is known.
  std::array<ReuseEstimate, kNumKinds> reuse_ = {
      ReuseEstimate(0), ReuseEstimate(0), ReuseEstimate(20)};
  uint64_t num_uses_ = 0;
  int64_t num_evicted_ = 0;
  OnEvict on_evict_;
  GhostList evicted_;  // Prefixes, by key.
  GhostList seen_;     // Prefixes, whatever the key, with the key's hash.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_H_
