#include "scheduler_service/batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace bole {
namespace {

template <typename Id>
std::string AuditPool(const char* what, const NumberPool<Id>& pool,
                      const std::vector<Id>& held) {
  std::vector<int> holders(pool.total(), 0);
  for (const Id id : held) ++holders[id.value()];
  for (int i = 0; i < pool.total(); ++i) {
    if (holders[i] != static_cast<int>(pool.IsHeld(Id(i)))) {
      return absl::StrCat(what, " ", i, " is ",
                          pool.IsHeld(Id(i)) ? "held" : "free", " and has ",
                          holders[i], " holders");
    }
  }
  const int num_held = static_cast<int>(held.size());
  if (pool.num_free() + num_held != pool.total()) {
    return absl::StrCat(pool.num_free(), " free and ", num_held, " held ", what,
                        "s, of ", pool.total());
  }
  return "";
}

}  // namespace

Batch::Batch(const StepLimits& limits, const std::optional<DraftShape>& draft,
             int max_rows, int max_running)
    : limits_(limits),
      draft_(draft),
      max_rows_(max_rows),
      max_running_(std::min(max_running, limits.max_requests)),
      slots_(limits.num_slots),
      pages_(limits.num_pages) {}

int Batch::PagesFor(int committed, int rows) const {
  const int kv_rows = limits_.KvRows(committed, rows, draft_);
  return (kv_rows + limits_.page_size - 1) / limits_.page_size;
}

int Batch::LeastRows(const Sequence& sequence) {
  return sequence.in_prefill()
             ? sequence.prefill_target() - sequence.committed()
             : 1;
}

int Batch::MostRows(const Sequence& sequence) const {
  if (sequence.in_prefill()) return LeastRows(sequence);
  return std::min({max_rows_, sequence.tree().size(),
                   limits_.max_context - sequence.committed()});
}

bool Batch::TakePages(Sequence& sequence, int count) {
  while (std::ssize(sequence.pages) < count && pages_.num_free() > 0) {
    sequence.pages.push_back(pages_.Take());
  }
  return std::ssize(sequence.pages) >= count;
}

absl::Status Batch::Fits(const Sequence& sequence) const {
  const int length =
      sequence.prompt_length() + *sequence.request().sampling.max_tokens;
  if (length > limits_.max_context) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt and max_tokens are ", length,
                     " tokens, the worker's context is ", limits_.max_context,
                     "; ask for fewer tokens"));
  }
  const int needed = PagesFor(length, 0);
  if (needed <= pages_.total()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("prompt and max_tokens are ", length, " tokens and need ",
                   needed, " pages of KV memory, of which the worker has ",
                   pages_.total(), "; ask for fewer tokens"));
}

bool Batch::Admit(std::unique_ptr<Sequence>& sequence) {
  const int needed = PagesFor(sequence->prefill_target(), 1);
  // Those that run can then grow by a page each before anyone has to leave.
  const int reserve = static_cast<int>(running_.size());
  if (std::ssize(running_) >= max_running_ || slots_.num_free() == 0 ||
      pages_.num_free() < needed + reserve) {
    return false;
  }
  sequence->slot = slots_.Take();
  BOLE_CHECK(TakePages(*sequence, needed));
  const auto later = [](const TimePoint& arrival,
                        const std::unique_ptr<Sequence>& other) {
    return arrival < other->request().arrival;
  };
  running_.insert(std::upper_bound(running_.begin(), running_.end(),
                                   sequence->request().arrival, later),
                  std::move(sequence));
  return true;
}

std::vector<std::unique_ptr<Sequence>> Batch::Grow() {
  std::vector<std::unique_ptr<Sequence>> evicted;
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    const int needed = PagesFor(sequence.committed(), LeastRows(sequence));
    while (i < running_.size() && !TakePages(sequence, needed)) {
      Release(*running_.back());
      running_.back()->Restart();
      evicted.push_back(std::move(running_.back()));
      running_.pop_back();
    }
  }
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    TakePages(*sequence, PagesFor(sequence->committed(), MostRows(*sequence)));
  }
  std::reverse(evicted.begin(), evicted.end());
  return evicted;
}

bool Batch::GrowFor(const Lease& lease) {
  const StepPlan plan{.draft = draft_, .lease = lease};
  const int path = draft_ ? draft_->depth + 1 : 1;
  std::vector<int> needed;
  needed.reserve(running_.size());
  int64_t missing = 0;
  for (const auto& sequence : running_) {
    const int rows = MostRows(*sequence);
    const int kv_rows =
        limits_.LeaseKvRows(sequence->Plan(), rows, std::min(rows, path), plan);
    needed.push_back((kv_rows + limits_.page_size - 1) / limits_.page_size);
    missing +=
        std::max<int64_t>(needed.back() - std::ssize(sequence->pages), 0);
  }
  if (missing > pages_.num_free()) return false;
  for (size_t i = 0; i < running_.size(); ++i) {
    BOLE_CHECK(TakePages(*running_[i], needed[i]));
  }
  return true;
}

std::unique_ptr<Sequence> Batch::Remove(const Sequence& sequence) {
  const auto at =
      std::find_if(running_.begin(), running_.end(),
                   [&](const auto& other) { return other.get() == &sequence; });
  BOLE_CHECK(at != running_.end());
  std::unique_ptr<Sequence> removed = std::move(*at);
  running_.erase(at);
  Release(*removed);
  return removed;
}

void Batch::Release(Sequence& sequence) {
  slots_.Give(*sequence.slot);
  sequence.slot.reset();
  for (const PageId page : sequence.pages) pages_.Give(page);
  sequence.pages.clear();
}

std::string Batch::Audit() const {
  std::vector<SlotId> slots;
  std::vector<PageId> pages;
  for (const auto& sequence : running_) {
    if (!sequence->slot) return "a running request has no slot";
    slots.push_back(*sequence->slot);
    pages.insert(pages.end(), sequence->pages.begin(), sequence->pages.end());
  }
  std::string wrong = AuditPool("slot", slots_, slots);
  return wrong.empty() ? AuditPool("page", pages_, pages) : wrong;
}

}  // namespace bole
