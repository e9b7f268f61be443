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

#include "scheduler_service/replicas/ghost_list.h"
#include "scheduler_service/replicas/radix_tree.h"
#include "scheduler_service/replicas/reuse_estimate.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

// Checkpoints are made at multiples of this position, but where a text ends,
// and prefixes that are shorter are not looked for.
inline constexpr int kCacheGrid = 64;

// And at these, where a long prompt is prefilled.
inline constexpr int kCheckpointEvery = 2048;
// One before the end of a prompt is made if it saves so many tokens.
inline constexpr int kLeastCheckpoint = 256;

// Where checkpoints are made as a text is prefilled of which `known` tokens
// need not be, ascending: at multiples of kCheckpointEvery, where texts have
// parted (`wish`), and at the last position on the grid before `length`.
std::vector<int> CheckpointsOf(int known, int length, std::optional<int> wish);

// Why a request did not find more than it did.
enum class MissReason {
  kNone,              // It found what there ever was.
  kCold,              // Nobody began like this.
  kBelowGranularity,  // It is too short for there to be a checkpoint.
  kEvicted,           // It was there, and gave way to others.
  kNoCheckpoint,      // The tokens are there, but no state between them.
  kSalt,              // It is there for another tenant or salt.
  kOtherWorker,       // Another worker has more. Said by who knows them.
};
inline constexpr int kNumMissReasons = 7;
// As metrics write it: "below_granularity"; empty for kNone.
const char* NameOf(MissReason reason);

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
  size_t max_ghosts = 1 << 14;
};

// A text that looks for its beginning.
struct CacheQuery {
  // Those of a tenant and a salt; two tenants never share.
  std::string key;
  // Prompt, and output so far. At least one token is left to be run, so that
  // all but the last may be found.
  std::span<const int32_t> tokens;
  // Tokens at later positions are output. A checkpoint beyond it has to agree
  // on where the output began, for the sake of penalties.
  int prompt_length = 0;
};

// What of a slot is known, when it becomes a checkpoint.
struct CheckpointFacts {
  int position = 0;         // Tokens whose state it has.
  int prompt_length = 0;    // Of the request that made it.
  int num_undrafted = 0;    // The last of them, that the drafter has not seen.
  bool has_drafter = true;  // The drafter has seen all the others.
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
  // COST: O(tokens).
  Match Look(const CacheQuery& query) const;

  struct Hit {
    CheckpointFacts from;  // position 0: there is none.
    // Those of positions [0, from.position). The request may write none of
    // them: it copies the ones from `first_written` on.
    std::optional<PageLease> pages = {};
    int first_written = 0;  // Page index. The drafter shows its tail there.
    // The checkpoint is not evicted while somebody holds this.
    std::shared_ptr<const SlotLease> slot = {};

    // Those that the drafter has to be shown before it can go on: what it had
    // not seen, and the last one, for another token may follow it now.
    int num_undrafted() const { return std::max(from.num_undrafted, 1); }
  };
  // The same, and counts as its use. COST: O(tokens).
  Hit Take(const CacheQuery& query);

  // A request leaves its slot: it becomes a checkpoint. Ignored, and given
  // back, if there is one like it. `pages` has those of all its positions.
  // COST: O(tokens).
  void Add(const std::string& key, std::span<const int32_t> tokens,
           const PageLease& pages, SlotLease slot,
           const CheckpointFacts& facts);
  // A slot for a checkpoint, to be copied to, of a text of which `known` tokens
  // have one already: one that is free, or that of a checkpoint which is worth
  // less. None if all are worth more.
  std::optional<SlotLease> SlotFor(int known, int position);

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
  // How long checkpoints of a kind were not used until they were found, by the
  // logarithm of other uses of the cache, and how many never were, so far.
  struct Reuse {
    static constexpr size_t kIdleClasses = 20;

    std::array<double, kIdleClasses> found{};
    double gone = 0;

    static size_t ClassOf(uint64_t idle);
    void CountFound(uint64_t idle);
    void CountGone();
    void Forget();
    // Of those that were not used for so long: how many will be found.
    double ShareFound(uint64_t idle) const;
  };
  struct Found {
    Checkpoint* best = nullptr;
    int in_pages = 0;  // Tokens for which there are pages.
  };

  Found Find(const CacheQuery& query) const;
  // Those that nobody has found yet at the end of a text; within one; those
  // that were found.
  static constexpr size_t kNumKinds = 3;
  static size_t KindOf(const Checkpoint& checkpoint);
  // The text would have found one that went.
  void CountGhost(const CacheQuery& query, int known);
  MissReason ReasonFor(const CacheQuery& query, const Found& found) const;
  double SecondsFor(int from, int to) const;
  double PriorityOf(const Checkpoint& checkpoint) const;
  void Link(Checkpoint& checkpoint, const std::vector<Checkpoint*>& on_path);
  void Evict(Checkpoint& checkpoint);
  void Drop(Checkpoint& checkpoint);
  // The one that goes first, of those that are idle and `may_go`.
  Checkpoint* First(const std::function<bool(const Checkpoint&)>& may_go) const;

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
  GhostList evicted_;  // Prefixes, by key.
  GhostList seen_;     // Prefixes, whatever the key, with the key's hash.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_CACHE_H_
