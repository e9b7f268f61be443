#include "tests/simulation/simulated_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace bole::simulation {

SimulatedMemory::SimulatedMemory(const StepLimits& limits)
    : power_(limits.page_size + 1, 1),
      device_{std::vector<Slot>(limits.num_slots),
              std::vector<Drafted>(limits.num_slots),
              std::vector<Page>(limits.num_pages)},
      host_{std::vector<Slot>(limits.num_host_slots),
            std::vector<Drafted>(limits.num_host_slots),
            std::vector<Page>(limits.num_host_pages)} {
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

  const Slot& slot = device_.slots[sequence.slot.value()];
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
    sum.rows += (device_.pages[pages[i].value()].*part).sum * sum.power;
    sum.power *= power_[page_size()];
  }
  if (rest == 0) return sum;
  const Rows& last = device_.pages[pages[full_pages].value()].*part;
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
  const Page& page = device_.pages[pages[position / page_size()].value()];
  const std::vector<uint64_t>& row = page.target.row;
  return row.empty() ? 0 : row[position % page_size()];
}

void SimulatedMemory::WriteRow(std::span<const PageId> pages, int position,
                               uint64_t row) {
  Write(device_.pages[pages[position / page_size()].value()].target,
        position % page_size(), row);
}

void SimulatedMemory::WriteDraft(std::span<const PageId> pages, int position,
                                 uint64_t draft) {
  Write(device_.pages[pages[position / page_size()].value()].drafter,
        position % page_size(), draft);
}

uint64_t SimulatedMemory::SumOfDrafts(std::span<const PageId> pages,
                                      int count) const {
  const std::vector<uint64_t>& first =
      device_.pages[pages[0].value()].drafter.row;
  const uint64_t at_0 = first.empty() ? 0 : first[0];
  return SumOf(pages, &Page::drafter, count).rows - at_0;
}

void SimulatedMemory::Copy(const MemoryCopies& copies, const Store& from,
                           Store& to) {
  for (const SlotCopy& copy : copies.slots) {
    Slot& slot = to.slots[copy.to.value()];
    slot = from.slots[copy.from.value()];
    to.drafted[copy.to.value()] = from.drafted[copy.from.value()];
    if (copy.output_to_prompt) {
      slot.prompt += std::exchange(slot.output, 0);
    }
  }
  for (const PageCopy& copy : copies.pages) {
    to.pages[copy.to.value()] = from.pages[copy.from.value()];
  }
}

void SimulatedMemory::Copy(const StepPlan& plan) {
  Copy(plan.to_host, device_, host_);
  Copy(plan.from_host, host_, device_);
  Copy(plan.copies, device_, device_);
}

void SimulatedMemory::WriteSlot(SlotId slot, const History& history) {
  device_.slots[slot.value()] = {.state = history.state,
                                 .prompt = history.prompt,
                                 .output = history.output,
                                 .drafts = history.drafts,
                                 .length = history.length,
                                 .rows = history.rows};
}

}  // namespace bole::simulation
