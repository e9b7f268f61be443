#include "scheduler_service/replicas/worker_memory.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace bole {

SlotLease::SlotLease(SlotLease&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), id_(other.id_) {}

SlotLease& SlotLease::operator=(SlotLease&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(id_, other.id_);
  return *this;
}

SlotLease::~SlotLease() {
  if (memory_ != nullptr) memory_->slots_.Return(id_);
}

PageLease::PageLease(PageLease&& other) noexcept
    : memory_(other.memory_),
      holder_(other.holder_),
      ids_(std::exchange(other.ids_, {})) {}

PageLease& PageLease::operator=(PageLease&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(holder_, other.holder_);
  std::swap(ids_, other.ids_);
  return *this;
}

PageLease::~PageLease() {
  for (const PageId id : ids_) memory_->pages_.Return(id, holder_);
}

bool PageLease::GrowTo(int count) {
  while (size() < count && memory_->pages().free > 0) {
    ids_.push_back(memory_->pages_.Take());
  }
  return size() >= count;
}

PageLease PageLease::Share(int first, int count, PageHolder holder) const {
  BOLE_CHECK(first >= 0 && count >= 0 && first + count <= size());
  PageLease other(*memory_, holder);
  other.ids_.assign(ids_.begin() + first, ids_.begin() + first + count);
  for (const PageId id : other.ids_) memory_->pages_.Hold(id, holder);
  return other;
}

PageLease PageLease::SplitAt(int count) {
  BOLE_CHECK(count >= 0 && count <= size());
  PageLease others(*memory_, holder_);
  others.ids_.assign(ids_.begin() + count, ids_.end());
  ids_.resize(count, PageId(0));
  return others;
}

void PageLease::Append(PageLease other) {
  BOLE_CHECK(other.holder_ == holder_);
  ids_.insert(ids_.end(), other.ids_.begin(), other.ids_.end());
  other.ids_.clear();
}

WorkerMemory::WorkerMemory(int num_slots, int num_pages)
    : slots_(num_slots), pages_(num_pages) {}

WorkerMemory::~WorkerMemory() {
  BOLE_CHECK(slots().free == slots().total && pages().free == pages().total);
}

std::optional<SlotLease> WorkerMemory::TakeSlot() {
  if (slots().free == 0) return std::nullopt;
  return SlotLease(*this, slots_.Take());
}

PoolStatus WorkerMemory::slots() const { return slots_.status(); }

PoolStatus WorkerMemory::pages() const { return pages_.status(); }

std::string WorkerMemory::Audit(const MemoryReferences& references) const {
  std::string wrong = slots_.Audit("slot", references.slots);
  return wrong.empty() ? pages_.Audit("page", references.pages) : wrong;
}

template <typename Id>
WorkerMemory::Pool<Id>::Pool(int total)
    : holders_(total, 0), caches_(total, 0) {
  free_.reserve(total);
  for (int i = total; i > 0; --i) free_.emplace_back(i - 1);
}

template <typename Id>
Id WorkerMemory::Pool<Id>::Take() {
  BOLE_CHECK(!free_.empty());
  const Id id = free_.back();
  free_.pop_back();
  holders_[id.value()] = 1;
  return id;
}

template <typename Id>
void WorkerMemory::Pool<Id>::Change(Id id, PageHolder holder, int by) {
  BOLE_CHECK(holders_[id.value()] > 0);
  num_cache_only_ -= IsCacheOnly(id) ? 1 : 0;
  holders_[id.value()] += by;
  if (holder == PageHolder::kCache) caches_[id.value()] += by;
  BOLE_CHECK(caches_[id.value()] >= 0 &&
             caches_[id.value()] <= holders_[id.value()]);
  num_cache_only_ += IsCacheOnly(id) ? 1 : 0;
}

template <typename Id>
void WorkerMemory::Pool<Id>::Hold(Id id, PageHolder holder) {
  Change(id, holder, 1);
}

template <typename Id>
void WorkerMemory::Pool<Id>::Return(Id id, PageHolder holder) {
  Change(id, holder, -1);
  if (holders_[id.value()] == 0) free_.push_back(id);
}

template <typename Id>
std::string WorkerMemory::Pool<Id>::Audit(const char* what,
                                          const std::vector<Id>& held) const {
  std::vector<int> found(holders_.size(), 0);
  for (const Id id : held) ++found[id.value()];
  std::vector<bool> is_free(holders_.size(), false);
  for (const Id id : free_) {
    if (is_free[id.value()]) {
      return absl::StrCat(what, " ", id.value(), " is free twice");
    }
    is_free[id.value()] = true;
  }
  for (size_t i = 0; i < holders_.size(); ++i) {
    if (found[i] == holders_[i] && is_free[i] == (holders_[i] == 0)) continue;
    return absl::StrCat(what, " ", i,
                        is_free[i] ? " is free, " : " is not free, ", "counts ",
                        holders_[i], " holders and has ", found[i]);
  }
  return "";
}

}  // namespace bole
