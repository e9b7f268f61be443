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
  kCoarse,  // About 50 kinds of rounds and short texts: for a CPU's patience.
  kFull,    // At most kMaxCombinations.
};
inline constexpr int kMaxCombinations = 300;

// How the memory of a worker is dealt out while it is calibrated: every slot
// has as many pages of its own. The last slot is that of chunks; forests have
// the slots before it, or it as well where there is no chunk.
struct CalibrationLayout {
  int slots = 0;           // Of them `max_requests` for a forest, at most.
  int pages_per_slot = 0;  //
  // Tokens that a slot can have committed before a round of any kind.
  int room = 0;
  // What is prefilled before anything is measured: long texts in the first
  // slots and in the last one, short texts in the others.
  int long_slots = 0;
  int short_length = 0;
  int long_length = 0;
  // Rounds with draft tails have so many committed tokens, at most so many
  // requests, and tails no longer than that (0: there are none): long texts
  // have room for them behind the short ones, where no other round begins.
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

// One kind of round. A forest of `requests` trees of as many nodes, a chunk of
// a prompt, or both.
struct Combination {
  int requests = 0;
  int committed = 0;       // Tokens of each request.
  int nodes_per_tree = 1;  // More than 1: of proposals in the shape of `draft`.
  std::optional<DraftShape> draft = {};  // What the round proposes.
  int chunk = 0;                         // Tokens.
  int chunk_committed = 0;
  int draft_tail = 0;     // Tokens of each request that the drafter missed.
  int rounds = 1;         // Of a lease, if more than 1.
  bool held_out = false;  // To be predicted, not fitted.

  friend bool operator==(const Combination&, const Combination&) = default;
};

// Each once: plain decoding, chains, trees, leases, drafts and none, draft
// tails, chunks with and without a forest, over numbers of requests and
// lengths; then random
// ones between, which are held out. Any of them is a plan that ValidatePlan()
// accepts, in memory of that layout. The same for the same arguments.
std::vector<Combination> CombinationsOf(const StepLimits& limits,
                                        bool has_drafter, CalibrationSize size,
                                        const CalibrationLayout& layout);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_COMBINATIONS_H_
