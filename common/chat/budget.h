// Bounds on the time and memory of one rendering.
#ifndef BOLE_COMMON_CHAT_BUDGET_H_
#define BOLE_COMMON_CHAT_BUDGET_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace bole::jinja {

// The longest string and the longest list that a template can make.
inline constexpr size_t kMaxStringBytes = 16 << 20;
inline constexpr size_t kMaxListItems = 1 << 20;

// How deep lists and objects may be nested.
inline constexpr int kMaxValueDepth = 100;

// Steps that a rendering has left. A step is a node of the template evaluated
// or 16 bytes read or written, so the budget bounds time and memory.
class Budget {
 public:
  // For a context of some size. Templates in use take a few hundred steps for
  // each message, and read each byte of it about ten times.
  static Budget ForContext(size_t context_bytes) {
    return Budget(1'000'000 + 8 * static_cast<int64_t>(context_bytes));
  }

  explicit Budget(int64_t steps) : steps_left_(steps) {}

  // RESOURCE_EXHAUSTED once the steps have run out.
  absl::Status Charge(int64_t steps) {
    steps_left_ -= steps;
    if (steps_left_ >= 0) return absl::OkStatus();
    steps_left_ = 0;
    return absl::ResourceExhaustedError("the template takes too many steps");
  }
  absl::Status ChargeBytes(size_t bytes) {
    return Charge(1 + static_cast<int64_t>(bytes / 16));
  }

 private:
  int64_t steps_left_;
};

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_BUDGET_H_
