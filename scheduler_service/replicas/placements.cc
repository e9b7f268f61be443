#include "scheduler_service/replicas/placements.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/packed_forest.h"

namespace bole {
namespace {

// The rows that a job needs for the coming round: those of its prefill, or the
// pending token.
int LeastRows(const Placement& placement) {
  return placement.in_prefill() ? placement.prefill_left() : 1;
}

// Requests with the same key share the cache.
std::string CacheKeyOf(const Request& request) {
  return absl::StrCat(request.tenant.size(), ":", request.tenant,
                      request.cache_salt);
}

// A query with all known tokens, of which the last is left to be run.
CacheQuery QueryOf(const Job& job) {
  return {.key = CacheKeyOf(job.request()),
          .tokens = job.tokens(),
          .prompt_length = job.prompt_length()};
}

// Whether the job may share what is computed, in both directions. If it needs
// log probabilities of the prompt, it has to run the prompt.
bool MayRead(const Job& job) {
  return !job.is_suspect() &&
         job.known_prompt_logprobs() >= job.num_prompt_logprobs();
}

// No job waits for a checkpoint that saves fewer tokens.
constexpr int kLeastShared = 256;

}  // namespace

Placements::Placements(const StepLimits& limits, const RoundBounds& bounds,
                       int max_running,
                       const std::optional<PrefixCacheOptions>& cache,
                       double token_seconds)
    : limits_(limits),
      bounds_(bounds),
      max_running_(std::min(max_running, limits.max_requests)),
      memory_(limits.num_slots, limits.num_pages) {
  if (!cache) return;
  cache_.emplace(memory_, *cache);
  if (limits.num_host_slots == 0 || limits.num_host_pages == 0) return;
  host_ = std::make_unique<HostTier>(
      *cache_, HostTierOptions{.num_slots = limits.num_host_slots,
                               .num_pages = limits.num_host_pages,
                               .cache = *cache,
                               .token_seconds = token_seconds});
}

int Placements::PagesForRows(int kv_rows) const {
  return (kv_rows + limits_.page_size - 1) / limits_.page_size;
}

int Placements::PagesFor(int committed, int rows) const {
  return PagesForRows(limits_.KvRows(committed, rows, bounds_.draft));
}

int Placements::MostRows(const Placement& placement) const {
  if (placement.in_prefill()) return LeastRows(placement);
  return std::min({bounds_.max_nodes_per_tree, placement.tree().size(),
                   limits_.max_context - placement.committed()});
}

absl::Status Placements::Fits(const Job& job) const {
  const int length = job.prompt_length() + *job.request().sampling.max_tokens;
  if (length > limits_.max_context) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt and max_tokens are ", length,
                     " tokens, the worker's context is ", limits_.max_context,
                     "; ask for fewer tokens"));
  }
  const int needed = PagesFor(length, 0);
  if (needed <= limits_.num_pages) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("prompt and max_tokens are ", length, " tokens and need ",
                   needed, " pages of KV memory, of which the worker has ",
                   limits_.num_pages, "; ask for fewer tokens"));
}

Placements::Room Placements::room() const {
  const int running = static_cast<int>(size());
  // Placements that start from checkpoints also keep the checkpoints' slots.
  const auto starting = std::count_if(
      all_.begin(), all_.end(),
      [](const auto& placement) { return placement->holds_checkpoint(); });
  const int slots = limits_.num_slots - static_cast<int>(starting);
  return {.jobs = std::min(max_running_, slots) - running,
          .pages = memory_.pages().available() - running};
}

int Placements::PagesToPlace(const Job& job) const {
  return PagesFor(job.prefill_target(), 1);
}

int64_t Placements::ShareOf(const Job& job) const {
  constexpr int64_t kWhole = 1'000'000;
  return std::max(kWhole / max_running_,
                  kWhole * PagesToPlace(job) / limits_.num_pages);
}

bool Placements::HasRoomFor(const Job& job) const {
  const Room free = room();
  return free.jobs > 0 && free.pages >= PagesToPlace(job);
}

PoolStatus Placements::slots() const {
  PoolStatus slots = memory_.slots();
  slots.cached = num_checkpoints();
  slots.free = slots.available();
  return slots;
}

PoolStatus Placements::pages() const {
  PoolStatus pages = memory_.pages();
  pages.free = pages.available();
  return pages;
}

bool Placements::FreePages(int count) {
  if (memory_.pages().free >= count) return true;
  if (!cache_) return false;
  if (cache_->FreePages(count)) return true;
  checkpoints_.Clear();
  return cache_->FreePages(count);
}

bool Placements::Claim(PageLease& pages, int count) {
  FreePages(std::max(count - pages.size(), 0));
  return pages.GrowTo(count);
}

std::optional<SlotLease> Placements::ClaimSlot() {
  if (cache_ && !cache_->FreeSlots(1)) {
    checkpoints_.Clear();
    cache_->FreeSlots(1);
  }
  return memory_.TakeSlot();
}

PrefixCache::Match Placements::Look(const Job& job) const {
  if (!cache_ || !MayRead(job)) return {};
  return host_ ? host_->Look(QueryOf(job)) : cache_->Look(QueryOf(job));
}

bool Placements::Adopt(Placement& placement, PrefixCache::Hit hit) {
  if (hit.from.position == 0) return false;
  PageLease pages = hit.on_host ? *std::exchange(hit.shared, std::nullopt)
                                : hit.pages->Share(0, hit.first_written,
                                                   PageHolder::kRequest);
  // Pages that it already has are used for the rest.
  PageLease own = std::move(placement.pages());
  const int needed = PagesToPlace(placement.job());
  const int missing = needed - pages.size();
  if (own.size() > missing) own.SplitAt(missing);
  pages.Append(std::move(own));
  if (!Claim(pages, needed)) {
    // Its own pages stay with the placement, which starts from nothing.
    if (pages.size() > hit.first_written) {
      placement.pages() = pages.SplitAt(hit.first_written);
    }
    return false;
  }
  placement.StartFrom(std::move(hit), std::move(pages),
                      bounds_.draft.has_value());
  return true;
}

void Placements::PlanCuts(Placement& placement,
                          const PrefixCache::Match& match) const {
  placement.set_cuts(CheckpointsOf(
      placement.committed(), placement.job().prefill_target(), match.wish));
}

bool Placements::ShouldWait(const Placement& placement, int known) const {
  const CacheQuery query = QueryOf(placement.job());
  const int least = known + kLeastShared;
  if (checkpoints_.Awaits(query, least)) return true;
  for (const std::unique_ptr<Placement>& other : all_) {
    if (other.get() == &placement) return false;  // Only later ones wait.
    if (!other->in_prefill() || other->cuts().empty() || other->waits()) {
      continue;
    }
    const int end = other->cuts().back();
    if (end < least || end >= std::ssize(query.tokens)) continue;
    const std::span<const int32_t> shared = other->job().tokens().first(end);
    if (CacheKeyOf(other->job().request()) == query.key &&
        std::equal(shared.begin(), shared.end(), query.tokens.begin())) {
      return true;
    }
  }
  return false;
}

PrefixCache::Match Placements::Place(Job& job) {
  PrefixCache::Match match = Look(job);
  PrefixCache::Hit hit;
  if (match.position > 0) hit = Take(QueryOf(job));
  std::optional<SlotLease> slot = ClaimSlot();
  if (!slot) {  // Its checkpoint holds the last one.
    hit = {};
    slot = ClaimSlot();
  }
  BOLE_CHECK(slot);
  auto made =
      std::make_unique<Placement>(job, *std::move(slot), PageLease(memory_));
  Placement& placement = *made;
  if (!Adopt(placement, std::move(hit))) {
    match.position = 0;
    BOLE_CHECK(Claim(placement.pages(), PagesToPlace(job)));
  }
  const auto later = [](const Job& added,
                        const std::unique_ptr<Placement>& other) {
    return ByArrival()(added, other->job());
  };
  all_.insert(std::upper_bound(all_.begin(), all_.end(), job, later),
              std::move(made));
  if (!cache_) return match;
  PlanCuts(placement, match);
  const bool is_fresh = match.position == 0 && MayRead(job);
  placement.set_waits(is_fresh && ShouldWait(placement, 0));
  return match;
}

std::vector<std::pair<Job*, PrefixCache::Match>> Placements::EndWaits() {
  std::vector<std::pair<Job*, PrefixCache::Match>> ended;
  for (const std::unique_ptr<Placement>& placement : all_) {
    if (!placement->waits()) continue;
    Job& job = placement->job();
    PrefixCache::Match match = Look(job);
    if (ShouldWait(*placement, match.position)) continue;
    placement->set_waits(false);
    const bool adopted =
        match.position > 0 && Adopt(*placement, Take(QueryOf(job)));
    if (!adopted) match.position = 0;
    PlanCuts(*placement, match);
    ended.emplace_back(&job, match);
  }
  return ended;
}

void Placements::Passed(Placement& placement) {
  const int before = placement.cuts().empty() ? 0 : placement.cuts()[0];
  if (!cache_ || !placement.PassCut() || !placement.in_prefill()) return;
  const CheckpointFacts facts = placement.Facts();
  std::optional<SlotLease> slot =
      cache_->SlotFor(placement.last_checkpoint(), before);
  if (!slot) return;
  placement.set_last_checkpoint(before);
  const std::span<const int32_t> tokens =
      placement.job().tokens().first(facts.position);
  checkpoints_.Plan(
      {.key = CacheKeyOf(placement.job().request()),
       .tokens = {tokens.begin(), tokens.end()},
       .pages = placement.pages().Share(PagesForRows(facts.position)),
       .from = placement.slot(),
       .to = *std::move(slot),
       .facts = facts});
}

void Placements::AddCopies(std::span<Placement* const> prefills,
                           std::span<Placement* const> sequences,
                           StepPlan& plan) {
  checkpoints_.Send(plan.copies);
  for (const Placement* placement : prefills) placement->AddCopies(plan);
  for (const Placement* placement : sequences) placement->AddCopies(plan);
  if (host_) host_->Send(plan);
}

void Placements::CopiesDone() {
  if (cache_) checkpoints_.Done(*cache_);
  if (host_) host_->Done();
}

void Placements::CopiesRefused() {
  checkpoints_.Refused();
  if (host_) host_->Refused();
}

int Placements::PagesFreedBy(const Placement& placement) const {
  const std::vector<PageId>& ids = placement.pages().ids();
  return static_cast<int>(std::count_if(
      ids.begin(), ids.end(),
      [this](PageId page) { return memory_.HasOneRequest(page); }));
}

std::vector<Job*> Placements::Grow() {
  std::vector<Job*> evicted;
  for (size_t i = 0; i < all_.size(); ++i) {
    Placement& placement = *all_[i];
    const int needed = PagesFor(placement.committed(), LeastRows(placement));
    while (i < all_.size() && !Claim(placement.pages(), needed)) {
      evicted.push_back(&all_.back()->job());
      Drop(*all_.back(), /*keep=*/true);
    }
  }
  for (const std::unique_ptr<Placement>& placement : all_) {
    Claim(placement->pages(),
          PagesFor(placement->committed(), MostRows(*placement)));
  }
  std::reverse(evicted.begin(), evicted.end());
  return evicted;
}

bool Placements::GrowFor(std::span<Placement* const> sequences,
                         StepPlan& plan) {
  const PackedForest& forest = plan.forest;
  std::vector<int> needed;
  needed.reserve(sequences.size());
  int64_t missing = 0;
  for (size_t b = 0; b < sequences.size(); ++b) {
    const auto first = forest.depth.begin() + forest.first_node[b];
    const auto last = forest.depth.begin() + forest.first_node[b + 1];
    needed.push_back(PagesForRows(
        limits_.LeaseKvRows(plan.sequences[b], static_cast<int>(last - first),
                            *std::max_element(first, last) + 1, plan)));
    missing += std::max(needed.back() - sequences[b]->pages().size(), 0);
  }
  if (!FreePages(static_cast<int>(missing))) return false;
  for (size_t b = 0; b < sequences.size(); ++b) {
    BOLE_CHECK(sequences[b]->pages().GrowTo(needed[b]));
    plan.sequences[b].pages = sequences[b]->pages().ids();
  }
  return true;
}

void Placements::Drop(Placement& placement, bool keep) {
  const auto at = std::find_if(
      all_.begin(), all_.end(),
      [&](const auto& other) { return other.get() == &placement; });
  BOLE_CHECK(at != all_.end());
  checkpoints_.Forget(placement.slot());
  const CheckpointFacts facts = placement.Facts();
  if (keep && cache_ && facts.position >= kCacheGrid) {
    cache_->Add(CacheKeyOf(placement.job().request()), placement.job().tokens(),
                placement.pages(), placement.TakeSlot(), facts);
  }
  all_.erase(at);
}

Placement& Placements::Find(const Job& job) const {
  const auto earlier = [](const std::unique_ptr<Placement>& other,
                          const Job& sought) {
    return ByArrival()(other->job(), sought);
  };
  const auto at = std::lower_bound(all_.begin(), all_.end(), job, earlier);
  BOLE_CHECK(at != all_.end() && &(*at)->job() == &job);
  return **at;
}

int64_t Placements::PrefillLeft() const {
  int64_t left = 0;
  for (const std::unique_ptr<Placement>& placement : all_) {
    left += placement->prefill_left();
  }
  return left;
}

int Placements::NumInPrefill() const {
  return static_cast<int>(std::count_if(
      all_.begin(), all_.end(),
      [](const auto& placement) { return placement->in_prefill(); }));
}

std::string Placements::Audit() const {
  MemoryReferences references;
  MemoryReferences on_host;
  for (const std::unique_ptr<Placement>& placement : all_) {
    placement->AddReferences(references, on_host);
  }
  checkpoints_.AddReferences(references);
  if (cache_) cache_->AddReferences(references);
  std::string wrong = memory_.Audit(references);
  if (wrong.empty() && host_) wrong = host_->Audit(std::move(on_host));
  return wrong;
}

}  // namespace bole
