#ifndef BOLE_KERNELS_COLLECTIVES_H_
#define BOLE_KERNELS_COLLECTIVES_H_

#include <span>

#include "kernels/tensor.h"

namespace bole {

// Operators that the ranks of a model compute together. All ranks call the same
// operators in the same order, with the same rows. With one rank, only the
// local part remains.

// residual += the `partial` of all ranks, added in float32 in the order of the
// ranks; out = RMSNorm(residual), as in RmsNormParams. The result has the same
// bits on every rank if the residual had.
struct AllReduceAddNormParams {
  RowCount rows;
  int width;  // H
  float epsilon;
  const Activation* partial;  // [N, H] of this rank.
  Activation* residual;       // [N, H] in and out.
  const float* weight;        // [H], the checkpoint's 1 + w already added.
  Activation* out;            // [N, H]
};

// Gathers the columns of all ranks into whole rows on every rank: the parts of
// a row lie side by side, in the order of the ranks.
struct AllGatherParams {
  RowCount rows;
  std::span<const int> widths;  // By rank; may be 0. Their sum is W.
  float* values;  // In: [N, widths[rank]] of this rank; out: [N, W].
};

}  // namespace bole

#endif  // BOLE_KERNELS_COLLECTIVES_H_
