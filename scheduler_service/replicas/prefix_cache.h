// A worker's cache of the beginnings of texts, for later texts that begin
// alike.
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
  kCostPerByte,  // The least recomputation time per byte, with ageing.
  kLru,          // The least recently used one; for comparison.
};

struct PrefixCacheOptions {
  int page_size = 64;
  // The memory of a slot and of a page, in any unit. The scarcer one may get a
  // higher weight.
  double slot_bytes = 1;
  double page_bytes = 1;
  // How much longer a token takes for each token before it, as a share of its
  // time without context. A model of 8e9 weights with 16 heads of 256 in 8 of
  // 32 layers has 8e-6.
  double context_cost = 1e-5;
  Eviction eviction = Eviction::kCostPerByte;
  // Do not replace pages by equal ones that the drafter has seen.
  bool keeps_pages = false;
  size_t max_ghosts = 1 << 14;
};

// A tree of tokens with their pages, and checkpoints of the recurrent state at
// some positions. A hit needs both: the pages of the first L tokens, and a
// checkpoint at L. Pages are kept as long as a checkpoint needs them.
//
// The cache takes every checkpoint it is given, and evicts some when memory is
// needed (FreeSlots(), FreePages()). The eviction order is GreedyDual-Size with
// frequencies: priority = age + worth / bytes, where the worth of a checkpoint
// is the time that a hit saves beyond the next shallower one, times the number
// of hits so far and the likelihood of another one. The likelihood is learnt
// for three kinds of checkpoints: those without a hit at the end of a text,
// those without a hit within a text, and those with hits, which the next turn
// of a conversation leaves behind. An evicted checkpoint counts as found when a
// text arrives that would have found it. The age is the highest priority that
// was evicted so far.
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
    MissReason reason = MissReason::kNone;  // Why there are not more.
    // Where a checkpoint should be made while the rest is prefilled, because
    // two texts diverge there. On the grid.
    std::optional<int> wish = {};
  };
  // What Take() would find, as if there were a checkpoint at `known` as well.
  // COST: O(tokens).
  Match Look(const CacheQuery& query, int known = 0) const;

  struct Hit {
    CheckpointFacts from;  // position 0: nothing was found.
    // The pages of positions [0, from.position). The request must not write
    // them: it copies those from index `first_written` on. There are none of
    // these if the tokens fill their pages and the drafter has seen them all.
    std::optional<PageLease> pages = {};
    int first_written = 0;  // Page index.
    // The checkpoint is not evicted while this is held.
    std::shared_ptr<const SlotLease> slot = {};
    // `slot` and `pages` are on the host (HostTier). The request then need not
    // copy the first `first_written` pages: `shared` has them on the device.
    bool on_host = false;
    std::optional<PageLease> shared = {};

    // How many tokens the drafter has to be shown before it can continue: those
    // that it has not seen, and always the last one, together with the token
    // that now follows it. The drafter's entry for that pair lies after those
    // of the checkpoint.
    int num_undrafted() const { return std::max(from.num_undrafted, 1); }
  };
  // Finds the deepest checkpoint for the query, and counts its use.
  // COST: O(tokens).
  Hit Take(const CacheQuery& query);
  // The text continues from elsewhere: an evicted checkpoint that it would have
  // found counts as found. COST: O(tokens).
  void Miss(const CacheQuery& query);
  // A lease, for a request, of the cached pages of the first tokens, at most
  // `most`; if `drafted`, only up to the first page that the drafter has not
  // seen. COST: O(tokens).
  PageLease Known(const std::string& key, std::span<const int32_t> tokens,
                  int most, bool drafted) const {
    return tree_.Known(key, tokens, most, drafted);
  }

  // Makes a checkpoint of the slot that a request leaves. If there is an
  // equivalent checkpoint, the slot is given back instead. `pages` covers all
  // positions. Returns the slot as in Hit::slot, or null if it was given back.
  // COST: O(tokens).
  std::shared_ptr<const SlotLease> Add(const std::string& key,
                                       std::span<const int32_t> tokens,
                                       const PageLease& pages, SlotLease slot,
                                       const CheckpointFacts& facts);
  // The position of the next shallower checkpoint if this one were added, or 0
  // without one. None if Add() would give the slot back. COST: O(tokens).
  std::optional<int> AboveOf(const std::string& key,
                             std::span<const int32_t> tokens,
                             const CheckpointFacts& facts) const;
  // The copy of a checkpoint that was marked `is_coming` has arrived.
  // COST: O(checkpoints).
  void Arrived(const SlotLease& slot);
  // A slot to copy a checkpoint at `position` to, of a text that already has
  // one at `known`: a free slot, or that of a checkpoint that is worth less.
  // None if all are worth more. If there is one, `num_pages` pages are free,
  // too.
  std::optional<SlotLease> SlotFor(int known, int position, int num_pages = 0);

  // What OnEvict is told just before a checkpoint is evicted, for its slot or
  // for its pages. The callback may be null.
  struct Leaving {
    const std::string& key;
    std::span<const int32_t> tokens;  // facts.position of them.
    const Hit& hit;                   // As Take() would return it.
  };
  using OnEvict = std::function<void(const Leaving&)>;
  void set_on_evict(OnEvict on_evict) { on_evict_ = std::move(on_evict); }
  // Drops all idle checkpoints, without calling OnEvict.
  void DropIdle();

  // Evict checkpoints until `count` slots or pages are free. Return false if
  // that fails because all checkpoints that are left are in use.
  // COST: O(checkpoints) for each evicted one.
  bool FreeSlots(int count);
  bool FreePages(int count);

  // Slots that FreeSlots() could free.
  int num_idle_slots() const;  // COST: O(checkpoints).
  int num_checkpoints() const { return static_cast<int>(all_.size()); }
  int64_t num_evicted() const { return num_evicted_; }

  void AddReferences(MemoryReferences& references) const;
  // Returns what is wrong, or an empty string. For tests.
  // COST: O(checkpoints^2 * depth).
  std::string Audit() const;

 private:
  struct Checkpoint : PrefixMark {
    Checkpoint(WorkerMemory& memory, const CheckpointFacts& of, SlotLease lease)
        : PrefixMark(memory, of.position),
          facts(of),
          slot(std::make_shared<const SlotLease>(std::move(lease))) {}

    CheckpointFacts facts;
    std::shared_ptr<const SlotLease> slot;
    // The next shallower checkpoint on its path, and the checkpoints whose
    // `above` is this one.
    Checkpoint* above = nullptr;
    std::vector<Checkpoint*> below = {};
    double age = 0;  // The cache's age at its last use.
    uint64_t used = 0;
    int hits = 0;
    // The end of a text that continued from it was evicted: a text that would
    // have found that checkpoint finds this one.
    bool is_heir = false;
    // The hash of the key and of the tokens up to the last grid position; 0 if
    // there are no such tokens.
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
  // All checkpoints on the path of the tokens.
  std::vector<Checkpoint*> OnPath(const std::string& key,
                                  std::span<const int32_t> tokens) const;
  static bool MayReplace(const Checkpoint& other, const CheckpointFacts& by);
  // The kinds are, in order: without a hit at the end of a text, without a hit
  // within a text, and with hits.
  static constexpr size_t kNumKinds = 3;
  static size_t KindOf(const Checkpoint& checkpoint);
  // Counts an evicted checkpoint beyond `known` that the text would have found.
  void CountGhost(const CacheQuery& query, int known);
  MissReason ReasonFor(const CacheQuery& query, int in_pages, int least) const;
  double SecondsFor(int from, int to) const;
  // The memory of a slot, and of the pages of the tokens from `first` up to
  // `position`.
  double BytesFrom(int first, int position) const;
  double PriorityOf(const Checkpoint& checkpoint) const;
  void Link(Checkpoint& made, const std::vector<Checkpoint*>& on_path);
  void Evict(Checkpoint& checkpoint);
  void Drop(Checkpoint& checkpoint);
  // The checkpoint to evict first, of those that are idle and pass `may_go`;
  // null if there are none.
  Checkpoint* First(const std::function<bool(const Checkpoint&)>& may_go) const;
  Checkpoint* FirstForSlots() const;
  Checkpoint* FirstForPages() const;

  WorkerMemory& memory_;
  const PrefixCacheOptions options_;
  RadixTree tree_;
  std::list<Checkpoint> all_;  // In order of creation.
  double age_ = 0;
  // By kind; the initial values are guesses.
  std::array<ReuseEstimate, kNumKinds> reuse_ = {
      ReuseEstimate(0), ReuseEstimate(0), ReuseEstimate(20)};
  uint64_t num_uses_ = 0;
  int64_t num_evicted_ = 0;
  OnEvict on_evict_;
  GhostList evicted_;  // Hashes of prefixes and their key.
  GhostList seen_;  // Hashes of prefixes alone; the number is the key's hash.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_H_
