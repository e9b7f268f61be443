// The slots through which ranks push what they add, in every order in which the
// ranks' single reads and writes may happen. Runs without a GPU.
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ranks/push.h"
#include "kernels/cuda/ranks/reduce_form.h"

namespace bole::cuda {
namespace {

constexpr int kMostRanks = 3;
constexpr int kMostBuffers = 3;
constexpr int kMostWords = 2;  // Of a row; each is a thread's.
constexpr int kEmpty = -1;

using enum ReduceForm;

// What a thread does next to a word of some rank's slots.
struct Operation {
  enum {
    kWrite,
    kRead,
    kClear
  } what;    // A read waits until there is something.
  int at;    // The rank that has the slot.
  int from;  // Whose slot it is there.
  int word;
};

// The rank that sums up a word in a two-shot call.
int OwnerOf(int word, int num_words, int num_ranks) {
  return word / ((num_words + num_ranks - 1) / num_ranks);
}

// What thread `word` of a rank does in a call.
std::vector<Operation> ProgramOf(ReduceForm form, int rank, int word,
                                 int num_words, int num_ranks) {
  std::vector<Operation> program;
  const auto send = [&](int to, int from, int w) {
    program.push_back({Operation::kWrite, to, from, w});
  };
  const auto take = [&](int from, int w) {
    program.push_back({Operation::kRead, rank, from, w});
    program.push_back({Operation::kClear, rank, from, w});
  };
  if (form == kOneShot) {
    for (int r = 0; r < num_ranks; ++r) {
      if (r != rank) send(r, rank, word);
    }
    for (int r = 0; r < num_ranks; ++r) {
      if (r != rank) take(r, word);
    }
    return program;
  }
  const int owner = OwnerOf(word, num_words, num_ranks);
  if (owner != rank) send(owner, rank, word);
  // The first threads sum up the rank's share.
  int own = word;
  for (int w = 0; w < num_words; ++w) {
    if (OwnerOf(w, num_words, num_ranks) != rank || own-- != 0) continue;
    for (int r = 0; r < num_ranks; ++r) {
      if (r != rank) take(r, w);
    }
    for (int r = 0; r < num_ranks; ++r) send(r, r, w);
  }
  take(rank, word);
  return program;
}

// What is in the slots, and where each thread of each rank is.
struct State {
  // [buffer][at][from][word]: the call that was written, or kEmpty.
  std::array<std::array<std::array<std::array<int8_t, kMostWords>, kMostRanks>,
                        kMostRanks>,
             kMostBuffers>
      slot;
  std::array<int8_t, kMostRanks> call;
  // The operation of the call that a thread does next.
  std::array<std::array<int8_t, kMostWords>, kMostRanks> next;

  friend auto operator<=>(const State&, const State&) = default;
};

struct Sizes {
  int ranks;
  int buffers;
  int words = 1;
  // Calls without rows after each call that take a buffer.
  int empty_calls = 0;
};

class Protocol {
 public:
  Protocol(const Sizes& sizes, std::vector<ReduceForm> calls)
      : sizes_(sizes), calls_(std::move(calls)) {
    for (const ReduceForm form : {kOneShot, kTwoShot}) {
      for (int rank = 0; rank < sizes.ranks; ++rank) {
        for (int word = 0; word < sizes.words; ++word) {
          programs_[Index(form)][rank][word] =
              ProgramOf(form, rank, word, sizes.words, sizes.ranks);
        }
      }
    }
  }

  // What goes wrong in some order, or "".
  std::string FirstError() {
    State start{};
    for (auto& of_buffer : start.slot) {
      for (auto& at : of_buffer) {
        for (auto& from : at) from.fill(kEmpty);
      }
    }
    std::set<State> seen = {start};
    std::vector<State> open = {start};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      bool has_moved = false;
      bool is_done = true;
      for (int rank = 0; rank < sizes_.ranks; ++rank) {
        if (state.call[rank] == std::ssize(calls_)) continue;
        is_done = false;
        for (int word = 0; word < sizes_.words; ++word) {
          State after = state;
          if (!Move(rank, word, after)) continue;
          if (!error_.empty()) return error_;
          has_moved = true;
          if (seen.insert(after).second) open.push_back(after);
        }
      }
      if (!is_done && !has_moved) return "all wait";
    }
    return "";
  }

 private:
  static size_t Index(ReduceForm form) { return form == kOneShot ? 0 : 1; }

  const std::vector<Operation>& Program(int rank, int word, int call) const {
    return programs_[Index(calls_[call])][rank][word];
  }

  // A thread's next operation; false if it has to wait.
  bool Move(int rank, int thread, State& state) {
    const int call = state.call[rank];
    const std::vector<Operation>& program = Program(rank, thread, call);
    int8_t& next = state.next[rank][thread];
    if (next == std::ssize(program)) return false;
    const Operation& op = program[next];
    const int buffer = call * (1 + sizes_.empty_calls) % sizes_.buffers;
    int8_t& word = state.slot[buffer][op.at][op.from][op.word];
    switch (op.what) {
      case Operation::kWrite:
        if (word != kEmpty) error_ = "a word is overwritten";
        word = static_cast<int8_t>(call);
        break;
      case Operation::kRead:
        if (word == kEmpty) return false;
        if (word != call) error_ = "a word of another call is read";
        break;
      case Operation::kClear:
        word = kEmpty;
        break;
    }
    ++next;
    // A call begins when all threads of the last one have ended.
    for (int w = 0; w < sizes_.words; ++w) {
      if (state.next[rank][w] < std::ssize(Program(rank, w, call))) return true;
    }
    state.next[rank].fill(0);
    ++state.call[rank];
    return true;
  }

  const Sizes sizes_;
  const std::vector<ReduceForm> calls_;
  // [form][rank][thread]
  std::array<
      std::array<std::array<std::vector<Operation>, kMostWords>, kMostRanks>, 2>
      programs_;
  std::string error_;
};

using Calls = std::vector<ReduceForm>;

std::string FirstError(const Sizes& sizes, const Calls& calls) {
  return Protocol(sizes, calls).FirstError();
}

TEST(PushProtocolTest, NoWordIsLostInAnyOrder) {
  static_assert(kSlotBuffers <= kMostBuffers);
  const Calls calls(6, kOneShot);
  EXPECT_EQ(FirstError({.ranks = 2, .buffers = kSlotBuffers}, calls), "");
  EXPECT_EQ(FirstError({.ranks = 3, .buffers = kSlotBuffers}, calls), "");
  // One is to spare.
  EXPECT_EQ(FirstError({.ranks = 3, .buffers = 2}, calls), "");
}

TEST(PushProtocolTest, NoWordOfATwoShotCallIsLost) {
  const Calls calls(6, kTwoShot);
  for (const int buffers : {2, kSlotBuffers}) {
    // A word of each rank, and one that not every rank has a share of.
    EXPECT_EQ(FirstError({.ranks = 2, .buffers = buffers, .words = 2}, calls),
              "");
    EXPECT_EQ(FirstError({.ranks = 2, .buffers = buffers}, calls), "");
    EXPECT_EQ(FirstError({.ranks = 3, .buffers = buffers}, calls), "");
  }
  EXPECT_EQ(
      FirstError({.ranks = 3, .buffers = 2, .words = 2}, Calls(3, kTwoShot)),
      "");
}

// All sequences of five calls.
TEST(PushProtocolTest, FormsMayFollowOneAnother) {
  constexpr int kCalls = 5;
  for (unsigned forms = 0; forms < 1u << kCalls; ++forms) {
    Calls calls;
    for (int i = 0; i < kCalls; ++i) {
      calls.push_back((forms >> i & 1) == 0 ? kOneShot : kTwoShot);
    }
    for (const int buffers : {2, kSlotBuffers}) {
      ASSERT_EQ(FirstError({.ranks = 2, .buffers = buffers}, calls), "")
          << forms;
      ASSERT_EQ(FirstError({.ranks = 3, .buffers = buffers}, calls), "")
          << forms;
    }
    if (forms % 4 != 2) continue;
    ASSERT_EQ(FirstError({.ranks = 2, .buffers = 2, .words = 2}, calls), "")
        << forms;
  }
}

TEST(PushProtocolTest, OneBufferWouldNotDo) {
  const Sizes sizes = {.ranks = 2, .buffers = 1, .words = 2};
  const std::string lost = "a word is overwritten";
  EXPECT_EQ(FirstError(sizes, {kOneShot, kOneShot}), lost);
  EXPECT_EQ(FirstError(sizes, {kOneShot, kTwoShot}), lost);
  // A sum comes when all parts have been taken, and a part goes out when all
  // sums of the last call have been.
  EXPECT_EQ(FirstError(sizes, {kTwoShot, kTwoShot, kOneShot}), "");
}

TEST(PushProtocolTest, CallsWithoutRowsMustNotTakeBuffers) {
  const Sizes sizes = {
      .ranks = 2, .buffers = kSlotBuffers, .empty_calls = kSlotBuffers - 1};
  EXPECT_EQ(FirstError(sizes, {kOneShot, kOneShot}), "a word is overwritten");
}

}  // namespace
}  // namespace bole::cuda
