#include "tests/simulation/simulated_memory.h"

#include "absl/strings/str_cat.h"

namespace bole::simulation {

SimulatedMemory::SimulatedMemory(const StepLimits& limits)
    : power_(limits.page_size + 1, 1),
      slots_(limits.num_slots),
      drafted_(limits.num_slots),
      pages_(limits.num_pages) {
  for (int i = 0; i < limits.page_size; ++i) {
    power_[i + 1] = power_[i] * kRowBase;
  }
}

SimulatedMemory::Found SimulatedMemory::Read(
    const SequencePlan& sequence) const {
  if (sequence.committed == 0) return {};
  const int page_size = static_cast<int>(power_.size()) - 1;
  const int full_pages = sequence.committed / page_size;
  const int rest = sequence.committed % page_size;
  History history;
  for (int i = 0; i < full_pages; ++i) {
    history.rows += pages_[sequence.pages[i].value()].sum * history.power;
    history.power *= power_[page_size];
  }
  for (int i = 0; i < rest; ++i) {
    history.rows += ReadRow(sequence.pages, full_pages * page_size + i) *
                    history.power * power_[i];
  }
  history.power *= power_[rest];
  history.length = sequence.committed;

  const Slot& slot = slots_[sequence.slot.value()];
  history.state = slot.state;
  history.prompt = slot.prompt;
  history.output = slot.output;
  if (slot.length != sequence.committed) {
    return {history,
            absl::StrCat("slot ", sequence.slot.value(), " holds ", slot.length,
                         " tokens, the plan commits ", sequence.committed)};
  }
  if (slot.rows != history.rows) {
    return {history, absl::StrCat("the pages of slot ", sequence.slot.value(),
                                  " do not hold the rows of its ", slot.length,
                                  " tokens")};
  }
  return {history, ""};
}

uint64_t SimulatedMemory::ReadRow(std::span<const PageId> pages,
                                  int position) const {
  const int page_size = static_cast<int>(power_.size()) - 1;
  const Page& page = pages_[pages[position / page_size].value()];
  return page.rows.empty() ? 0 : page.rows[position % page_size];
}

void SimulatedMemory::WriteRow(std::span<const PageId> pages, int position,
                               uint64_t row) {
  const int page_size = static_cast<int>(power_.size()) - 1;
  Page& page = pages_[pages[position / page_size].value()];
  if (page.rows.empty()) page.rows.resize(page_size);
  uint64_t& place = page.rows[position % page_size];
  page.sum += (row - place) * power_[position % page_size];
  place = row;
}

void SimulatedMemory::WriteSlot(SlotId slot, const History& history) {
  slots_[slot.value()] = {.state = history.state,
                          .prompt = history.prompt,
                          .output = history.output,
                          .length = history.length,
                          .rows = history.rows};
}

}  // namespace bole::simulation
