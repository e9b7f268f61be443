// Which rounds are measured to calibrate a worker.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_COMBINATIONS_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_COMBINATIONS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "common/step.h"

namespace bole {

enum class CalibrationSize {
  kCoarse,  // About 50 kinds of rounds and short texts: fast enough for a CPU.
  kFull,    // At most kMaxCombinations.
};
inline constexpr int kMaxCombinations = 300;

// How the memory of a worker is divided while it is calibrated: every slot has
// the same number of pages of its own. Chunks run in the last slot. Forests use
// the slots before it, and the last one as well if the round has no chunk.
struct CalibrationLayout {
  int slots = 0;           // A forest uses at most `max_requests` of them.
  int pages_per_slot = 0;  //
  // The most tokens that a slot may have committed before a round of any kind.
  int room = 0;
  // The texts that are prefilled before anything is measured: long ones in the
  // first slots and in the last one, short ones in the others.
  int long_slots = 0;
  int short_length = 0;
  int long_length = 0;
  // Rounds with draft tails have `tail_length` committed tokens, at most
  // `tail_requests` requests, and tails of at most `most_tail` tokens (0: there
  // are no such rounds). The tails lie in long texts, after the length of the
  // short ones, where no other round begins.
  int tail_length = 0;
  int tail_requests = 0;
  int most_tail = 0;

  int LengthOf(int slot) const {
    return slot < long_slots || slot + 1 == slots ? long_length : short_length;
  }
};

// FAILED_PRECONDITION with the sizes: the pages or the context are too few for
// one request.
absl::StatusOr<CalibrationLayout> LayoutOf(const StepLimits& limits,
                                           CalibrationSize size);

// One kind of round: a forest of `requests` trees with the same number of
// nodes, a chunk of a prompt, or both.
struct Combination {
  int requests = 0;
  int committed = 0;       // Tokens of each request.
  int nodes_per_tree = 1;  // If above 1, chosen from proposals of `draft`.
  std::optional<DraftShape> draft = {};  // The shape that the round proposes.
  int chunk = 0;                         // Tokens.
  int chunk_committed = 0;
  int draft_tail = 0;     // Tokens of each request that the drafter missed.
  int rounds = 1;         // If above 1, the rounds of a lease.
  bool held_out = false;  // Not fitted, but used to check predictions.

  friend bool operator==(const Combination&, const Combination&) = default;
};

// The kinds of rounds to measure, each once: plain decoding, chains, trees,
// leases, rounds with and without a draft, draft tails, and chunks with and
// without a forest, for several numbers of requests and lengths; then random
// ones in between, which are held out. In memory of that layout, each of them
// is a plan that ValidatePlan() accepts. Equal arguments give equal results.
std::vector<Combination> CombinationsOf(const StepLimits& limits,
                                        bool has_drafter, CalibrationSize size,
                                        const CalibrationLayout& layout);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_COMBINATIONS_H_
