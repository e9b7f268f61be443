// Slots and pages that remember what they were told to store.
#ifndef BOLE_TESTS_SIMULATION_SIMULATED_MEMORY_H_
#define BOLE_TESTS_SIMULATION_SIMULATED_MEMORY_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/step.h"
#include "tests/simulation/simulated_text.h"

namespace bole::simulation {

// The memory of one simulated worker. It is as large as the limits say, and
// filled as it is written: 8 bytes a row.
//
// Reads return what is there, right or wrong: a wrong page is no error but
// another history. That the pages of a sequence do not fit its slot is reported
// beside it, for whoever looks for the cause of a wrong text.
//
// Not thread-safe. The numbers of slots and pages must be in range, and page
// tables long enough: Validate(plan).
class SimulatedMemory {
 public:
  explicit SimulatedMemory(const StepLimits& limits);

  struct Found {
    History history;
    std::string problem;  // Empty if slot and pages agree with the plan.
  };
  // What slot and pages hold of the committed tokens; nothing if there are
  // none, whatever they hold. COST: O(committed / page_size + page_size).
  Found Read(const SequencePlan& sequence) const;

  // The row at `position` of the sequence, counted from its first token.
  uint64_t ReadRow(std::span<const PageId> pages, int position) const;
  void WriteRow(std::span<const PageId> pages, int position, uint64_t row);

  // The slot now holds the history. The caller has written its rows.
  void WriteSlot(SlotId slot, const History& history);

  // What slots and pages hold goes from one to the other, and to and from the
  // places of the host: all that is read or written through the functions here.
  void Copy(const StepPlan& plan);

  // The drafter's side of a slot: how many of its committed tokens the drafter
  // has seen, all from the first on, and those that it may be shown later,
  // which end where the slot's tokens end: each with the history that it ends.
  struct Kept {
    int32_t token;
    History history;
  };
  struct Drafted {
    int32_t seen = 0;
    std::deque<Kept> kept = {};  // At most kMaxDraftTail.
  };
  Drafted& drafted(SlotId slot) { return device_.drafted[slot.value()]; }

  // What the drafter has in the pages, at the same positions (DraftOf), and the
  // sum of draft_p * g^p over positions 1 .. count - 1: there is none at 0.
  // COST: as Read().
  void WriteDraft(std::span<const PageId> pages, int position, uint64_t draft);
  uint64_t SumOfDrafts(std::span<const PageId> pages, int count) const;

 private:
  // All that a slot holds: copying it copies the state. `length` and `rows` are
  // there to name problems, and are no part of any text.
  struct Slot {
    uint64_t state = 0;
    uint64_t prompt = 0;
    uint64_t output = 0;
    uint64_t drafts = 0;
    int32_t length = 0;
    uint64_t rows = 0;
  };
  struct Rows {
    std::vector<uint64_t> row;  // Empty until one is written.
    uint64_t sum = 0;           // The sum of row[i] * g^i.
  };
  struct Page {
    Rows target;
    Rows drafter;
  };
  struct Store {
    std::vector<Slot> slots;
    std::vector<Drafted> drafted;
    std::vector<Page> pages;
  };
  static void Copy(const MemoryCopies& copies, const Store& from, Store& to);
  void Write(Rows& rows, int place, uint64_t row);
  int page_size() const { return static_cast<int>(power_.size()) - 1; }
  // The sum of row_p * g^p over the first `count` rows of the pages, and
  // g^count.
  struct Sum {
    uint64_t rows = 0;
    uint64_t power = 1;
  };
  Sum SumOf(std::span<const PageId> pages, Rows Page::*part, int count) const;

  std::vector<uint64_t> power_;  // [page_size + 1] g^i.
  Store device_;
  Store host_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_MEMORY_H_
