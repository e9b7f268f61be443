#include "scheduler_service/replicas/placements.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/packed_forest.h"

namespace bole {
namespace {

// Rows without which a job has no coming round: those of its prefill, or the
// pending token.
int LeastRows(const Placement& placement) {
  return placement.in_prefill() ? placement.prefill_left() : 1;
}

}  // namespace

Placements::Placements(const StepLimits& limits, const RoundBounds& bounds,
                       int max_running)
    : limits_(limits),
      bounds_(bounds),
      max_running_(std::min(max_running, limits.max_requests)),
      memory_(limits.num_slots, limits.num_pages) {}

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
  return {.jobs = std::min(max_running_ - running, memory_.slots().free),
          .pages = memory_.pages().free - running};
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

void Placements::Place(Job& job) {
  std::optional<SlotLease> slot = memory_.TakeSlot();
  PageLease pages(memory_);
  BOLE_CHECK(slot && pages.GrowTo(PagesToPlace(job)));
  const auto later = [](const Job& added,
                        const std::unique_ptr<Placement>& other) {
    return ByArrival()(added, other->job());
  };
  all_.insert(
      std::upper_bound(all_.begin(), all_.end(), job, later),
      std::make_unique<Placement>(job, *std::move(slot), std::move(pages)));
}

std::vector<Job*> Placements::Grow() {
  std::vector<Job*> evicted;
  for (size_t i = 0; i < all_.size(); ++i) {
    Placement& placement = *all_[i];
    const int needed = PagesFor(placement.committed(), LeastRows(placement));
    while (i < all_.size() && !placement.pages().GrowTo(needed)) {
      evicted.push_back(&all_.back()->job());
      all_.pop_back();
    }
  }
  for (const std::unique_ptr<Placement>& placement : all_) {
    placement->pages().GrowTo(
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
  if (missing > memory_.pages().free) return false;
  for (size_t b = 0; b < sequences.size(); ++b) {
    BOLE_CHECK(sequences[b]->pages().GrowTo(needed[b]));
    plan.sequences[b].pages = sequences[b]->pages().ids();
  }
  return true;
}

void Placements::Drop(const Placement& placement) {
  const auto at = std::find_if(
      all_.begin(), all_.end(),
      [&](const auto& other) { return other.get() == &placement; });
  BOLE_CHECK(at != all_.end());
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
  for (const std::unique_ptr<Placement>& placement : all_) {
    placement->AddReferences(references);
  }
  return memory_.Audit(references);
}

}  // namespace bole
