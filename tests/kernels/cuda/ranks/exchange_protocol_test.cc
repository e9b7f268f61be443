// How samplers of several ranks exchange what they find, in every order in
// which the ranks' single reads and writes may happen. Runs without a GPU.
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {
namespace {

constexpr int kMostRanks = 3;
constexpr int kMostBuffers = 2;
constexpr int kNothing = -1;

// What a rank does next.
struct Operation {
  enum {
    kWriteLogits,  // The product of a draw overwrites those of the last one.
    kTell,         // Results of an exchange, into the memory of rank `other`.
    kCount,        // Says there that they have come.
    kAwait,        // Until all ranks have said so.
    kReadResults,  // Reads what rank `other` has told, in its own memory.
    kReadLogits,   // Reads the logits of rank `other`, in that one's memory.
  } what;
  int draw;
  int exchange = 0;
  int other = 0;
};

// A draw tells the results of groups, reads those of all ranks and some of
// their logits, and then, if it reports, does the same with the results of
// parts, but for the logits.
std::vector<Operation> ProgramOf(int num_ranks, int num_draws, bool reports) {
  std::vector<Operation> program;
  int exchange = 0;
  const auto run_exchange = [&](int draw, bool reads_logits) {
    for (const auto what : {Operation::kTell, Operation::kCount}) {
      for (int r = 0; r < num_ranks; ++r) {
        program.push_back({what, draw, exchange, r});
      }
    }
    program.push_back({Operation::kAwait, draw, exchange});
    for (int r = 0; r < num_ranks; ++r) {
      program.push_back({Operation::kReadResults, draw, exchange, r});
      if (!reads_logits) continue;
      program.push_back({Operation::kReadLogits, draw, exchange, r});
    }
    ++exchange;
  };
  for (int draw = 0; draw < num_draws; ++draw) {
    program.push_back({Operation::kWriteLogits, draw});
    run_exchange(draw, /*reads_logits=*/true);
    if (reports) run_exchange(draw, /*reads_logits=*/false);
  }
  return program;
}

struct State {
  // [buffer][at][from]: the exchange whose results were written, or kNothing.
  std::array<std::array<std::array<int8_t, kMostRanks>, kMostRanks>,
             kMostBuffers>
      results;
  std::array<std::array<int8_t, kMostRanks>, kMostRanks> told;  // [at][from]
  std::array<int8_t, kMostRanks> logits;  // The draw that wrote them.
  std::array<int8_t, kMostRanks> next;    // Operation of the program.

  friend auto operator<=>(const State&, const State&) = default;
};

class Protocol {
 public:
  Protocol(int num_ranks, int num_buffers, int num_draws, bool reports)
      : num_ranks_(num_ranks),
        num_buffers_(num_buffers),
        program_(ProgramOf(num_ranks, num_draws, reports)) {}

  // What goes wrong in some order, or "".
  std::string FirstError() {
    State start{};
    for (auto& of_buffer : start.results) {
      for (auto& at : of_buffer) at.fill(kNothing);
    }
    start.logits.fill(kNothing);
    std::set<State> seen = {start};
    std::vector<State> open = {start};
    while (!open.empty() && error_.empty()) {
      const State state = open.back();
      open.pop_back();
      bool has_moved = false;
      bool is_done = true;
      for (int rank = 0; rank < num_ranks_; ++rank) {
        is_done = is_done && state.next[rank] == std::ssize(program_);
        State after = state;
        if (!Move(rank, after)) continue;
        has_moved = true;
        if (seen.insert(after).second) open.push_back(after);
      }
      if (!is_done && !has_moved) error_ = "all wait";
    }
    return error_;
  }

 private:
  // A rank's next operation; false if it has to wait, or has none.
  bool Move(int rank, State& state) {
    if (state.next[rank] == std::ssize(program_)) return false;
    const Operation& op = program_[state.next[rank]];
    auto& results = state.results[op.exchange % num_buffers_];
    switch (op.what) {
      case Operation::kWriteLogits:
        state.logits[rank] = static_cast<int8_t>(op.draw);
        break;
      case Operation::kTell:
        results[op.other][rank] = static_cast<int8_t>(op.exchange);
        break;
      case Operation::kCount:
        ++state.told[op.other][rank];
        break;
      case Operation::kAwait:
        for (int r = 0; r < num_ranks_; ++r) {
          if (state.told[rank][r] <= op.exchange) return false;
        }
        break;
      case Operation::kReadResults:
        if (results[rank][op.other] != op.exchange) {
          error_ = "results of another exchange are read";
        }
        break;
      case Operation::kReadLogits:
        if (state.logits[op.other] != op.draw) {
          error_ = "logits of another draw are read";
        }
        break;
    }
    ++state.next[rank];
    return true;
  }

  const int num_ranks_;
  const int num_buffers_;
  const std::vector<Operation> program_;
  std::string error_;
};

TEST(ExchangeProtocolTest, EveryRankReadsWhatAllHaveTold) {
  static_assert(kExchangeBuffers <= kMostBuffers);
  EXPECT_EQ(Protocol(2, kExchangeBuffers, 4, true).FirstError(), "");
  EXPECT_EQ(Protocol(3, kExchangeBuffers, 2, true).FirstError(), "");
  // One buffer would not do.
  EXPECT_EQ(Protocol(2, 1, 4, true).FirstError(),
            "results of another exchange are read");
}

// A rank's next product overwrites its logits. What keeps it from that while
// another rank draws is the exchange of reports.
TEST(ExchangeProtocolTest, ReportsKeepLogitsUntilAllHaveDrawn) {
  EXPECT_EQ(Protocol(2, kExchangeBuffers, 2, false).FirstError(),
            "logits of another draw are read");
}

}  // namespace
}  // namespace bole::cuda
