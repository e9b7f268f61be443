#include "worker_service/engine/host_places.h"

#include <algorithm>
#include <cstdint>

#include "common/status_macros.h"

namespace bole {
namespace {

constexpr char kWhat[] = "the prefix cache on the host (--host-cache-gb)";

char* AllocatePlaces(int count, size_t item_bytes, DeviceArrays& arrays) {
  if (count == 0) return nullptr;
  return arrays.HostBytes(
      static_cast<int64_t>(count) * static_cast<int64_t>(item_bytes), kWhat);
}

template <typename Copy>
void MarkSources(const std::vector<Copy>& copies, std::vector<bool>& marked) {
  for (const Copy& copy : copies) marked[copy.from.value()] = true;
}

template <typename Copy>
bool WritesMarked(const std::vector<Copy>& copies,
                  const std::vector<bool>& marked) {
  return std::any_of(copies.begin(), copies.end(),
                     [&](const Copy& copy) { return marked[copy.to.value()]; });
}

}  // namespace

HostPlaces::HostPlaces(const SequenceMemory& memory, const Size& size,
                       OperatorSet& operators, DeviceArrays& arrays)
    : memory_(memory),
      device_(arrays.device()),
      operators_(operators),
      slots_(AllocatePlaces(size.num_slots, memory.slot_bytes(), arrays)),
      pages_(AllocatePlaces(size.num_pages, memory.page_bytes(), arrays)),
      leaving_slots_(memory.states.num_slots),
      leaving_pages_(memory.pages.num_pages) {}

void HostPlaces::AppendParts(const Parts& parts, int item, char* place,
                             std::vector<HostCopy>& copies) {
  for (const MemoryPart& part : parts) {
    char* const first = static_cast<char*>(part.first);
    copies.push_back(
        {.device = first + static_cast<size_t>(item) * part.item_bytes,
         .host = place,
         .bytes = part.item_bytes});
    place += part.item_bytes;
  }
}

std::vector<HostCopy> HostPlaces::CopiesOf(const MemoryCopies& copies,
                                           bool to_host) const {
  std::vector<HostCopy> pieces;
  pieces.reserve(copies.slots.size() * memory_.slot_parts.size() +
                 copies.pages.size() * memory_.page_parts.size());
  for (const SlotCopy& copy : copies.slots) {
    const size_t place = (to_host ? copy.to : copy.from).value();
    AppendParts(memory_.slot_parts, (to_host ? copy.from : copy.to).value(),
                slots_ + place * memory_.slot_bytes(), pieces);
  }
  for (const PageCopy& copy : copies.pages) {
    const size_t place = (to_host ? copy.to : copy.from).value();
    AppendParts(memory_.page_parts, (to_host ? copy.from : copy.to).value(),
                pages_ + place * memory_.page_bytes(), pieces);
  }
  return pieces;
}

bool HostPlaces::WritesLeaving(const SequencePlan& sequence) const {
  if (leaving_slots_[sequence.slot.value()]) return true;
  // The first row that is written: the drafter writes the rows of its tail,
  // which are already committed.
  const int tail = static_cast<int>(sequence.draft_tail.size());
  const int first =
      std::max(sequence.committed - tail, 0) / memory_.pages.page_size;
  const auto& pages = sequence.pages;
  return std::any_of(
      pages.begin() + std::min<int64_t>(first, std::ssize(pages)), pages.end(),
      [this](PageId page) { return leaving_pages_[page.value()]; });
}

bool HostPlaces::WritesLeaving(const StepPlan& plan) const {
  const auto writes = [this](const SequencePlan& sequence) {
    return WritesLeaving(sequence);
  };
  return WritesMarked(plan.copies.slots, leaving_slots_) ||
         WritesMarked(plan.copies.pages, leaving_pages_) ||
         std::any_of(plan.sequences.begin(), plan.sequences.end(), writes) ||
         std::any_of(
             plan.prefills.begin(), plan.prefills.end(),
             [&](const PrefillPlan& chunk) { return writes(chunk.sequence); });
}

absl::Status HostPlaces::QueueCopies(const StepPlan& plan) {
  if (!plan.to_host.empty()) {
    BOLE_RETURN_IF_ERROR(
        device_.CopyToHost(CopiesOf(plan.to_host, /*to_host=*/true)));
    MarkSources(plan.to_host.slots, leaving_slots_);
    MarkSources(plan.to_host.pages, leaving_pages_);
    any_leaving_ = true;
  }
  if (!plan.from_host.empty()) {
    BOLE_RETURN_IF_ERROR(
        device_.CopyFromHost(CopiesOf(plan.from_host, /*to_host=*/false)));
  }
  const bool waits =
      !plan.from_host.empty() || (any_leaving_ && WritesLeaving(plan));
  if (!waits) return absl::OkStatus();
  BOLE_RETURN_IF_ERROR(device_.AwaitHostCopies());
  if (any_leaving_) {
    leaving_slots_.assign(leaving_slots_.size(), false);
    leaving_pages_.assign(leaving_pages_.size(), false);
    any_leaving_ = false;
  }
  for (const SlotCopy& copy : plan.from_host.slots) {
    if (!copy.output_to_prompt) continue;
    BOLE_RETURN_IF_ERROR(
        operators_.OutputToPrompt({.slot = copy.to.value(),
                                   .vocabulary = memory_.vocabulary,
                                   .counts = memory_.counts}));
  }
  return absl::OkStatus();
}

}  // namespace bole
