// The slots through which ranks push what they add, in every order in which the
// ranks' single reads and writes may happen. Runs without a GPU.
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {
namespace {

constexpr int kMostRanks = 3;
constexpr int kMostBuffers = 3;
constexpr int kEmpty = -1;

// One word of a slot for each buffer and pair of ranks, and where each rank is
// in its program: for each call, a write to every other rank, then for every
// other rank a read, which waits until there is something, and its emptying.
struct State {
  // [buffer][at][from]: the call that was written, or kEmpty.
  std::array<std::array<std::array<int8_t, kMostRanks>, kMostRanks>,
             kMostBuffers>
      slot;
  std::array<int8_t, kMostRanks> next;  // The operation that a rank does next.

  friend auto operator<=>(const State&, const State&) = default;
};

class Protocol {
 public:
  Protocol(int num_ranks, int num_buffers, int num_calls)
      : ranks_(num_ranks), buffers_(num_buffers), calls_(num_calls) {}

  // What goes wrong in some order, or "".
  std::string FirstError() {
    State start{};
    for (auto& of_buffer : start.slot) {
      for (auto& at : of_buffer) at.fill(kEmpty);
    }
    std::set<State> seen = {start};
    std::vector<State> open = {start};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      bool has_moved = false;
      bool is_done = true;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (state.next[rank] == calls_ * OpsOfCall()) continue;
        is_done = false;
        State after = state;
        if (!Move(rank, after)) continue;
        if (!error_.empty()) return error_;
        has_moved = true;
        if (seen.insert(after).second) open.push_back(after);
      }
      if (!is_done && !has_moved) return "all wait";
    }
    return "";
  }

 private:
  // A write, a read and an emptying for every other rank.
  int OpsOfCall() const { return 3 * (ranks_ - 1); }

  // The rank's next operation; false if it has to wait.
  bool Move(int rank, State& state) {
    const int call = state.next[rank] / OpsOfCall();
    const int op = state.next[rank] % OpsOfCall();
    auto& slots = state.slot[call % buffers_];
    const auto other = [&](int i) { return i < rank ? i : i + 1; };
    if (op < ranks_ - 1) {
      int8_t& word = slots[other(op)][rank];
      if (word != kEmpty) error_ = "a word is overwritten";
      word = static_cast<int8_t>(call);
    } else {
      const int i = op - (ranks_ - 1);
      int8_t& word = slots[rank][other(i / 2)];
      if (i % 2 == 0) {
        if (word == kEmpty) return false;
        if (word != call) error_ = "a word of another call is read";
      } else {
        word = kEmpty;
      }
    }
    ++state.next[rank];
    return true;
  }

  const int ranks_;
  const int buffers_;
  const int calls_;
  std::string error_;
};

constexpr int kCalls = 6;

TEST(PushProtocolTest, NoWordIsLostInAnyOrder) {
  static_assert(kSlotBuffers <= kMostBuffers);
  EXPECT_EQ(Protocol(2, kSlotBuffers, kCalls).FirstError(), "");
  EXPECT_EQ(Protocol(3, kSlotBuffers, kCalls).FirstError(), "");
  // One is to spare.
  EXPECT_EQ(Protocol(3, 2, kCalls).FirstError(), "");
}

TEST(PushProtocolTest, OneBufferWouldNotDo) {
  EXPECT_EQ(Protocol(2, 1, kCalls).FirstError(), "a word is overwritten");
}

}  // namespace
}  // namespace bole::cuda
