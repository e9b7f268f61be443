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

  // The drafter's side of a slot: how many of its committed tokens the drafter
  // has seen, all from the first on, and those that are kept for it to be seen
  // later, which end where the slot's tokens end.
  struct Drafted {
    int32_t seen = 0;
    std::deque<int32_t> kept = {};  // At most kMaxDraftTail.
  };
  Drafted& drafted(SlotId slot) { return drafted_[slot.value()]; }

 private:
  // All that a slot holds: copying it copies the state. `length` and `rows` are
  // there to name problems, and are no part of any text.
  struct Slot {
    uint64_t state = 0;
    uint64_t prompt = 0;
    uint64_t output = 0;
    int32_t length = 0;
    uint64_t rows = 0;
  };
  struct Page {
    std::vector<uint64_t> rows;  // Empty until one is written.
    uint64_t sum = 0;            // The sum of rows[i] * g^i.
  };

  std::vector<uint64_t> power_;  // [page_size + 1] g^i.
  std::vector<Slot> slots_;
  std::vector<Drafted> drafted_;
  std::vector<Page> pages_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_MEMORY_H_
