// How the ranks of a model exchange what each of them has computed.
#ifndef BOLE_KERNELS_COMMUNICATOR_H_
#define BOLE_KERNELS_COMMUNICATOR_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "kernels/rank.h"

namespace bole {

// One rank's end of a group. All ranks make the same calls in the same order;
// a call waits until the others have made it, and returns when its result is
// there and `part` may be overwritten.
//
// The first error ends the group: every call of every rank that waits then, or
// comes later, returns it.
//   DEADLINE_EXCEEDED  a rank did not come in time; names it and the call.
//   UNAVAILABLE        a rank has left; names it, and why if it told.
//   INTERNAL           the ranks make different calls; names both.
//
// A communicator whose destructor runs has left its group. Thread-safety: the
// calls of one rank come from one thread at a time; Abort() may come from any.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual Rank rank() const = 0;

  // sum[i] = part[i] of rank 0 + part[i] of rank 1 + ..., added in that order
  // in float32, so that every rank has the same bits. REQUIRES: both have the
  // same size; they do not overlap.
  virtual absl::Status AllReduce(std::span<const float> part,
                                 std::span<float> sum) = 0;

  // whole = the ranks' parts one after the other, in the order of the ranks.
  // Parts may differ in size, and may be empty. REQUIRES: no overlap.
  virtual absl::Status AllGather(std::span<const std::byte> part,
                                 std::span<std::byte> whole) = 0;

  // This rank leaves the group because of `reason`, which the others are told.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace bole

#endif  // BOLE_KERNELS_COMMUNICATOR_H_
