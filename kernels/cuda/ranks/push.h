// How the ranks of a model send data to each other's GPUs: the kernels, and the
// memory that they exchange through.
#ifndef BOLE_KERNELS_CUDA_RANKS_PUSH_H_
#define BOLE_KERNELS_CUDA_RANKS_PUSH_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/collectives.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

// As many as a host has GPUs.
inline constexpr int kMaxPeers = 8;

// Says why a rank stopped waiting. It lies in host memory and is 0 until then.
struct PushFailure {
  int32_t missing;  // 1 + the rank whose data did not arrive.
};

// The counts of one rank, in its own memory; all are 0 at the start. Ranks add
// to each other's counts. A call adds kCallUnits to a count, whatever the size
// of its grid, so that a block can tell the number of the call from a count to
// which other blocks of its grid have already added: the quotient changes only
// when the last of them adds.
inline constexpr uint64_t kCallUnits = uint64_t{1} << 32;
struct PushCounts {
  uint64_t reductions;          // Calls with rows that this rank has made.
  uint64_t gathers;             // Calls that this rank has made.
  uint64_t arrived[kMaxPeers];  // Gathers whose part has come, by rank.
  uint64_t taken[kMaxPeers];    // Gathers that a rank has read, by rank.
  uint64_t exchanges;           // Calls that this rank has made.
  uint64_t told[kMaxPeers];     // Exchanges whose results have come, by rank.
  uint32_t has_failed;          // Not 0: nobody waits any more.
};

// Memory of each rank that all of them write to:
//
//   slots   [kSlotBuffers][rank][kSlotBytes]  what ranks add, as sent; in the
//                                             rank's own, two-shot sums
//   whole   [kWholeBytes]                     rows that are being gathered
//   results [kExchangeBuffers][kExchangeBytes]  results of an exchange
//   counts  PushCounts
//
// Slots hold kEmptyWord in every word that has not been sent. A real word of
// that value, which is two bfloat16 of -0 or a float32 of -0, is sent as +0. So
// data is its own flag, word by word, and a vector of 16 bytes may arrive in
// pieces. The thread that has read a word empties it again. A rank sends call
// k + 2 after its call k + 1 has ended, so after all ranks have begun k + 1 and
// ended call k: a sum that it received has parts of all ranks. So two buffers
// would do, whichever forms the calls have. Calls without rows, in which nobody
// waits for anybody, use no buffer.
inline constexpr uint32_t kEmptyWord = 0x80008000u;
inline constexpr uint32_t kEmptyFloat = 0x80000000u;
inline constexpr int kSlotBuffers = 3;
inline constexpr size_t kSlotBytes = size_t{4} << 20;
inline constexpr size_t kWholeBytes = size_t{64} << 20;
inline constexpr int kExchangeBuffers = 2;
inline constexpr size_t kExchangeBytes = size_t{32} << 20;

constexpr size_t WholeOffset(int num_ranks) {
  return static_cast<size_t>(kSlotBuffers) * num_ranks * kSlotBytes;
}
constexpr size_t ExchangeOffset(int num_ranks) {
  return WholeOffset(num_ranks) + kWholeBytes;
}
constexpr size_t CountsOffset(int num_ranks) {
  return ExchangeOffset(num_ranks) + kExchangeBuffers * kExchangeBytes;
}
constexpr size_t ArenaBytes(int num_ranks) {
  return CountsOffset(num_ranks) + sizeof(PushCounts);
}

// How many rows of `row_bytes` bytes fit `bytes`; at least one.
constexpr int RowsThatFit(size_t bytes, size_t row_bytes) {
  const size_t fit = bytes / row_bytes;
  return fit > 1 ? static_cast<int>(fit) : 1;
}

// The ranks' memory, as one of them sees it.
struct PushGroup {
  int rank;
  int count;
  char* arena[kMaxPeers];  // By rank.
  PushFailure* failure;    // This rank writes it to the host's mapped memory.
  uint64_t patience;       // Nanoseconds to wait for another rank.
};

// Empties all slots of this rank and sets its counts to 0. To be called before
// any rank sends.
absl::Status ClearArena(const PushGroup& group, const Launch& on);

// The operators of kernels/collectives.h for rows first_row .. first_row +
// num_rows - 1 of those that there is room for.
//
// Each row is computed by one block, which waits for the rows of the other
// ranks, adds them up in float32 in the order of the ranks, rounds once, and
// normalises what it has rounded. Every rank must have the same widths and be
// called for the same rows. REQUIRES: num_rows * width elements fit kSlotBytes,
// and CheckReduceWidth() accepts the width.
absl::Status PushAllReduceAddNorm(const AllReduceAddNormParams& params,
                                  int first_row, int num_rows,
                                  const PushGroup& group, const Launch& on);
// The same, with the same bits, in the two-shot form (reduce_form.h).
absl::Status PushTwoShotAddNorm(const AllReduceAddNormParams& params,
                                int first_row, int num_rows,
                                const PushGroup& group, const Launch& on);
// UNIMPLEMENTED for rows that are not whole vectors of 16 bytes, or are too
// wide.
absl::Status CheckReduceWidth(int width, ElementType type);

// Rows first_row .. first_row + num_rows - 1 of an all-gather. `whole` may
// begin where `part` does, if ranges are gathered from the last rows to the
// first. REQUIRES: num_rows * width floats fit kWholeBytes.
struct GatherRange {
  const float* part;     // [N, own_width]
  float* whole;          // [N, width]
  const int32_t* count;  // [1], device; rows in use.
  int first_row;
  int num_rows;
  int width;
  int own_width;  // Columns own_first .. are this rank's.
  int own_first;
  bool are_aligned;  // All ranks' columns begin at multiples of 4, as rows do.
};
absl::Status PushAllGather(const GatherRange& range, const PushGroup& group,
                           const Launch& on);

// Finishes an all-reduce when all ranks' partial sums are on this GPU: parts
// [num_ranks, num_rows, width] of rows first_row .. first_row + num_rows - 1.
absl::Status AddPartsAndNorm(const AllReduceAddNormParams& params,
                             int first_row, int num_rows, const void* parts,
                             int num_ranks, const Launch& on);

// Copies `part` [num_rows, width] to columns first .. first + width - 1 of the
// range's rows.
absl::Status PlaceColumns(const float* part, int first, int width,
                          const GatherRange& range, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_PUSH_H_
