#include "tests/simulation/simulated_memory.h"

#include <utility>

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
  History history;
  const Sum sum = SumOf(sequence.pages, &Page::target, sequence.committed);
  history.rows = sum.rows;
  history.power = sum.power;
  history.length = sequence.committed;

  const Slot& slot = slots_[sequence.slot.value()];
  history.state = slot.state;
  history.prompt = slot.prompt;
  history.output = slot.output;
  history.drafts = slot.drafts;
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

SimulatedMemory::Sum SimulatedMemory::SumOf(std::span<const PageId> pages,
                                            Rows Page::*part, int count) const {
  const int full_pages = count / page_size();
  const int rest = count % page_size();
  Sum sum;
  for (int i = 0; i < full_pages; ++i) {
    sum.rows += (pages_[pages[i].value()].*part).sum * sum.power;
    sum.power *= power_[page_size()];
  }
  if (rest == 0) return sum;
  const Rows& last = pages_[pages[full_pages].value()].*part;
  if (!last.row.empty()) {
    for (int i = 0; i < rest; ++i) {
      sum.rows += last.row[i] * sum.power * power_[i];
    }
  }
  sum.power *= power_[rest];
  return sum;
}

void SimulatedMemory::Write(Rows& rows, int place, uint64_t row) {
  if (rows.row.empty()) rows.row.resize(page_size());
  rows.sum += (row - rows.row[place]) * power_[place];
  rows.row[place] = row;
}

uint64_t SimulatedMemory::ReadRow(std::span<const PageId> pages,
                                  int position) const {
  const Page& page = pages_[pages[position / page_size()].value()];
  const std::vector<uint64_t>& row = page.target.row;
  return row.empty() ? 0 : row[position % page_size()];
}

void SimulatedMemory::WriteRow(std::span<const PageId> pages, int position,
                               uint64_t row) {
  Write(pages_[pages[position / page_size()].value()].target,
        position % page_size(), row);
}

void SimulatedMemory::WriteDraft(std::span<const PageId> pages, int position,
                                 uint64_t draft) {
  Write(pages_[pages[position / page_size()].value()].drafter,
        position % page_size(), draft);
}

uint64_t SimulatedMemory::SumOfDrafts(std::span<const PageId> pages,
                                      int committed) const {
  return SumOf(pages, &Page::drafter, committed).rows;
}

void SimulatedMemory::Copy(const MemoryCopies& copies) {
  for (const SlotCopy& copy : copies.slots) {
    Slot& slot = slots_[copy.to.value()];
    slot = slots_[copy.from.value()];
    drafted_[copy.to.value()] = drafted_[copy.from.value()];
    if (copy.output_to_prompt) {
      slot.prompt += std::exchange(slot.output, 0);
    }
  }
  for (const PageCopy& copy : copies.pages) {
    pages_[copy.to.value()] = pages_[copy.from.value()];
  }
}

void SimulatedMemory::WriteSlot(SlotId slot, const History& history) {
  slots_[slot.value()] = {.state = history.state,
                          .prompt = history.prompt,
                          .output = history.output,
                          .drafts = history.drafts,
                          .length = history.length,
                          .rows = history.rows};
}

}  // namespace bole::simulation
