#include "scheduler_service/replicas/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "scheduler_service/replicas/prefix_hash.h"

namespace bole {
namespace {

// Marks a ghost whose return was counted.
constexpr uint64_t kCounted = UINT64_MAX;

// A position where two texts diverge is worth a checkpoint if that would save
// this many tokens.
constexpr int kLeastBranch = 2 * kCacheGrid;

}  // namespace

PrefixCache::PrefixCache(WorkerMemory& memory,
                         const PrefixCacheOptions& options)
    : memory_(memory),
      options_(options),
      tree_(memory, options.page_size, !options.keeps_pages),
      evicted_(options.max_ghosts),
      seen_(options.max_ghosts) {}

PrefixCache::~PrefixCache() {
  while (!all_.empty()) Drop(all_.back());
}

PrefixCache::Found PrefixCache::Find(const CacheQuery& query) const {
  Found found;
  if (query.tokens.size() < 2) return found;
  const auto may_be_found = query.tokens.first(query.tokens.size() - 1);
  found.in_pages = tree_.Visit(query.key, may_be_found, [&](PrefixMark& mark) {
    auto& checkpoint = static_cast<Checkpoint&>(mark);
    const bool agrees = mark.position <= query.prompt_length ||
                        checkpoint.facts.prompt_length == query.prompt_length;
    if (agrees && !checkpoint.facts.is_coming &&
        (found.best == nullptr || mark.position > found.best->position)) {
      found.best = &checkpoint;
    }
  });
  return found;
}

MissReason PrefixCache::ReasonFor(const CacheQuery& query, int in_pages,
                                  int least) const {
  const int most = static_cast<int>(query.tokens.size()) - 1;
  if (most < kCacheGrid) {
    return least > 0 ? MissReason::kNone : MissReason::kBelowGranularity;
  }
  if (in_pages >= least + kLeastBranch) return MissReason::kNoCheckpoint;
  const uint64_t key = HashOf(query.key);
  MissReason reason = least > 0 ? MissReason::kNone : MissReason::kCold;
  RollingHash hash;
  for (int i = 0; i < most; ++i) {
    hash.Add(query.tokens[i]);
    if ((i + 1) % kCacheGrid != 0 || i + 1 <= least) continue;
    if (evicted_.Find(WithKey(hash.value(), key)) != nullptr) {
      return MissReason::kEvicted;
    }
    const uint64_t* const owner = seen_.Find(hash.value());
    if (owner != nullptr && *owner != key) reason = MissReason::kSalt;
  }
  return reason;
}

PrefixCache::Match PrefixCache::Look(const CacheQuery& query, int known) const {
  const Found found = Find(query);
  if (found.best != nullptr) known = std::max(known, found.best->position);
  Match match{.position = known,
              .reason = ReasonFor(query, found.in_pages, known)};
  const int branch = found.in_pages / kCacheGrid * kCacheGrid;
  if (branch >= match.position + kLeastBranch) match.wish = branch;
  return match;
}

PrefixCache::Hit PrefixCache::HitOf(const Checkpoint& checkpoint) const {
  Hit hit{.from = checkpoint.facts,
          .pages = tree_.PagesOf(checkpoint),
          .slot = checkpoint.slot};
  hit.first_written =
      (checkpoint.position - hit.num_undrafted() + 1) / options_.page_size;
  hit.from.has_drafter = hit.from.has_drafter &&
                         tree_.DraftedPagesOf(checkpoint) >= hit.first_written;
  return hit;
}

PrefixCache::Hit PrefixCache::Take(const CacheQuery& query) {
  Checkpoint* const best = Find(query).best;
  CountGhost(query, best == nullptr ? 0 : best->position);
  if (best == nullptr) return {};
  reuse_[KindOf(*best)].CountFound(num_uses_ - best->used);
  best->age = age_;
  best->used = ++num_uses_;
  ++best->hits;
  best->is_heir = false;
  return HitOf(*best);
}

void PrefixCache::Miss(const CacheQuery& query) {
  const Checkpoint* const best = Find(query).best;
  CountGhost(query, best == nullptr ? 0 : best->position);
}

std::vector<PrefixCache::Checkpoint*> PrefixCache::OnPath(
    const std::string& key, std::span<const int32_t> tokens) const {
  std::vector<Checkpoint*> on_path;
  tree_.Visit(key, tokens, [&](PrefixMark& mark) {
    on_path.push_back(static_cast<Checkpoint*>(&mark));
  });
  return on_path;
}

bool PrefixCache::MayReplace(const Checkpoint& other,
                             const CheckpointFacts& by) {
  const bool is_better = by.has_drafter != other.facts.has_drafter
                             ? by.has_drafter
                             : by.prompt_length != other.facts.prompt_length;
  return is_better && other.is_idle();
}

std::optional<int> PrefixCache::AboveOf(const std::string& key,
                                        std::span<const int32_t> tokens,
                                        const CheckpointFacts& facts) const {
  int above = 0;
  for (const Checkpoint* other : OnPath(key, tokens.first(facts.position))) {
    if (other->position < facts.position) {
      above = std::max(above, other->position);
    } else if (!MayReplace(*other, facts)) {
      return std::nullopt;
    }
  }
  return above;
}

std::shared_ptr<const SlotLease> PrefixCache::Add(
    const std::string& key, std::span<const int32_t> tokens,
    const PageLease& pages, SlotLease slot, const CheckpointFacts& facts) {
  std::vector<Checkpoint*> on_path = OnPath(key, tokens.first(facts.position));
  for (Checkpoint* other : on_path) {
    if (other->position != facts.position) continue;
    other->age = age_;
    other->used = ++num_uses_;
    if (!MayReplace(*other, facts)) return nullptr;
    std::erase(on_path, other);
    Drop(*other);
    break;
  }
  all_.emplace_back(memory_, facts, std::move(slot));
  Checkpoint& made = all_.back();
  made.self = std::prev(all_.end());
  made.age = age_;
  made.used = ++num_uses_;
  // The drafter's entries of its positions: that of the first one that it has
  // not seen lies one further.
  const int seen = facts.has_drafter
                       ? facts.position - std::max(facts.num_undrafted - 1, 0)
                       : 0;
  tree_.Put(made, key, tokens, pages, seen / options_.page_size);
  Link(made, on_path);
  const int on_grid = facts.position / kCacheGrid * kCacheGrid;
  if (on_grid > 0) {
    const uint64_t content = PrefixHash(tokens.first(on_grid));
    const uint64_t owner = HashOf(key);
    made.prefix = WithKey(content, owner);
    seen_.Add(content, owner);
  }
  return made.slot;
}

void PrefixCache::Arrived(const SlotLease& slot) {
  const auto at = std::find_if(
      all_.begin(), all_.end(),
      [&](const Checkpoint& one) { return one.slot.get() == &slot; });
  BOLE_CHECK(at != all_.end() && at->facts.is_coming);
  at->facts.is_coming = false;
}

void PrefixCache::Link(Checkpoint& made,
                       const std::vector<Checkpoint*>& on_path) {
  for (Checkpoint* other : on_path) {
    if (made.above == nullptr || other->position > made.above->position) {
      made.above = other;
    }
  }
  // The path of checkpoints that were directly below that one, or below none,
  // may pass through the new one.
  const auto adopt = [&](Checkpoint* other) {
    if (other == &made || other->above != made.above ||
        !tree_.IsOnPathOf(made, *other)) {
      return false;
    }
    other->above = &made;
    made.below.push_back(other);
    return true;
  };
  if (made.above != nullptr) {
    std::erase_if(made.above->below, adopt);
    made.above->below.push_back(&made);
  } else {
    tree_.VisitBelow(made, [&](PrefixMark& mark) {
      adopt(static_cast<Checkpoint*>(&mark));
    });
  }
}

void PrefixCache::CountGhost(const CacheQuery& query, int known) {
  const uint64_t key = HashOf(query.key);
  uint64_t deepest = 0;
  uint64_t ghost = kCounted;
  RollingHash hash;
  for (size_t i = 0; i + 1 < query.tokens.size(); ++i) {
    hash.Add(query.tokens[i]);
    const int position = static_cast<int>(i) + 1;
    if (position % kCacheGrid != 0 || position <= known) continue;
    const uint64_t prefix = WithKey(hash.value(), key);
    if (const uint64_t* const found = evicted_.Find(prefix)) {
      deepest = prefix;
      ghost = *found;
    }
  }
  if (ghost == kCounted) return;
  reuse_[ghost % kNumKinds].CountReturned(num_uses_ - ghost / kNumKinds);
  evicted_.Add(deepest, kCounted);
}

size_t PrefixCache::KindOf(const Checkpoint& checkpoint) {
  if (checkpoint.hits > 0 && !checkpoint.is_heir) return 2;
  return checkpoint.below.empty() ? 0 : 1;
}

double PrefixCache::SecondsFor(int from, int to) const {
  const double tokens = to - from;
  return tokens * (1 + options_.context_cost * (from + tokens / 2));
}

double PrefixCache::BytesFrom(int first, int position) const {
  const int size = options_.page_size;
  const int num_pages = (position + size - 1) / size - first / size;
  return options_.slot_bytes + num_pages * options_.page_bytes;
}

double PrefixCache::PriorityOf(const Checkpoint& checkpoint) const {
  if (options_.eviction == Eviction::kLru) {
    return static_cast<double>(checkpoint.used);
  }
  const int above =
      checkpoint.above == nullptr ? 0 : checkpoint.above->position;
  const bool is_leaf = checkpoint.below.empty();
  const double reuse =
      reuse_[KindOf(checkpoint)].ShareFound(num_uses_ - checkpoint.used) *
      std::max(checkpoint.hits, 1);
  const int position = checkpoint.position;
  const int first = is_leaf ? above : position - position % options_.page_size;
  return checkpoint.age +
         reuse * SecondsFor(above, position) / BytesFrom(first, position);
}

PrefixCache::Checkpoint* PrefixCache::First(
    const std::function<bool(const Checkpoint&)>& may_go) const {
  const Checkpoint* first = nullptr;
  double least = 0;
  for (const Checkpoint& checkpoint : all_) {
    if (!checkpoint.is_idle() || !may_go(checkpoint)) continue;
    const double priority = PriorityOf(checkpoint);
    if (first != nullptr && priority >= least) continue;
    first = &checkpoint;
    least = priority;
  }
  return first == nullptr ? nullptr : &*first->self;
}

std::optional<SlotLease> PrefixCache::SlotFor(int known, int position,
                                              int num_pages) {
  if (memory_.pages().available() < num_pages) return std::nullopt;
  const double worth = reuse_[1].ShareFound(0) * SecondsFor(known, position) /
                       BytesFrom(known, position);
  while (memory_.slots().free == 0 || memory_.pages().free < num_pages) {
    Checkpoint* const first =
        memory_.slots().free == 0 ? FirstForSlots() : FirstForPages();
    const bool is_worth_it = options_.eviction == Eviction::kLru ||
                             (first && PriorityOf(*first) < age_ + worth);
    if (first == nullptr || !is_worth_it) return std::nullopt;
    Evict(*first);
  }
  return memory_.TakeSlot();
}

bool PrefixCache::FreeSlots(int count) {
  while (memory_.slots().free < count) {
    Checkpoint* const first = FirstForSlots();
    if (first == nullptr) return false;
    Evict(*first);
  }
  return true;
}

bool PrefixCache::FreePages(int count) {
  while (memory_.pages().free < count) {
    Checkpoint* const first = FirstForPages();
    if (first == nullptr) return false;
    Evict(*first);
  }
  return true;
}

PrefixCache::Checkpoint* PrefixCache::FirstForSlots() const {
  return First([](const Checkpoint&) { return true; });
}

PrefixCache::Checkpoint* PrefixCache::FirstForPages() const {
  if (memory_.pages().cached == 0) return nullptr;
  Checkpoint* const first = First([this](const Checkpoint& checkpoint) {
    return checkpoint.below.empty() &&
           memory_.IsCacheOnly(tree_.LastPageOf(checkpoint));
  });
  // The others lie above checkpoints or pages that requests hold, or share
  // their last page with a request.
  return first != nullptr ? first : FirstForSlots();
}

void PrefixCache::Evict(Checkpoint& checkpoint) {
  if (options_.eviction == Eviction::kCostPerByte) {
    age_ = std::max(age_, PriorityOf(checkpoint));
  }
  ++num_evicted_;
  const size_t kind = KindOf(checkpoint);
  reuse_[kind].CountGone();
  if (checkpoint.prefix != 0) {
    evicted_.Add(checkpoint.prefix, checkpoint.used * kNumKinds + kind);
  }
  Checkpoint* const above = checkpoint.above;
  if (kind == 0 && above != nullptr && above->below.size() == 1) {
    above->is_heir = true;
    above->used = std::max(above->used, checkpoint.used);
  }
  if (on_evict_) {
    const RadixTree::Run run = tree_.RunOf(checkpoint);
    on_evict_({.key = run.key, .tokens = run.tokens, .hit = HitOf(checkpoint)});
  }
  Drop(checkpoint);
}

void PrefixCache::DropIdle() {
  for (auto at = all_.begin(); at != all_.end();) {
    Checkpoint& one = *at++;
    if (one.is_idle()) Drop(one);
  }
}

void PrefixCache::Drop(Checkpoint& checkpoint) {
  Checkpoint* const above = checkpoint.above;
  if (above != nullptr) std::erase(above->below, &checkpoint);
  for (Checkpoint* below : checkpoint.below) {
    below->above = above;
    if (above != nullptr) above->below.push_back(below);
  }
  tree_.Remove(checkpoint);
  all_.erase(checkpoint.self);
}

int PrefixCache::num_idle_slots() const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(),
                    [](const Checkpoint& one) { return one.is_idle(); }));
}

void PrefixCache::AddReferences(MemoryReferences& references) const {
  tree_.AddReferences(references);
  for (const Checkpoint& checkpoint : all_) {
    references.slots.push_back(checkpoint.slot->id());
  }
}

std::string PrefixCache::Audit() const {
  for (const Checkpoint& one : all_) {
    const Checkpoint* above = nullptr;
    for (const Checkpoint& other : all_) {
      if (&other == &one || !tree_.IsOnPathOf(other, one)) continue;
      if (above == nullptr || other.position > above->position) above = &other;
    }
    if (above == one.above) continue;
    return absl::StrCat("the checkpoint at ", one.position, " in slot ",
                        one.slot->id().value(),
                        " does not know the one above it");
  }
  return "";
}

}  // namespace bole
