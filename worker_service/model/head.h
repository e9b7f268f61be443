// What hidden vectors are scored with.
#ifndef BOLE_WORKER_SERVICE_MODEL_HEAD_H_
#define BOLE_WORKER_SERVICE_MODEL_HEAD_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/operator_set.h"

namespace bole {

// A value; refers to weights, which must outlive it.
struct Head {
  const WeightMatrix* matrix;  // [rows[rank], H]
  std::span<const int> rows;   // How many each rank has; L in all.
  // [L] The tokens of all ranks' rows, or null: column v is token v.
  const int32_t* token_of;

  // L: the columns of all ranks' logits.
  int columns() const;
  // The most columns that a rank has. Arrays of logits are as wide on every
  // rank, so that all are planned alike.
  int most_rows() const;
};

// logits [N, rows of the rank].
absl::Status ComputeLogits(const Head& head, RowCount rows,
                           const Activation* hidden, float* logits,
                           OperatorSet& operators);

// logits: what ComputeLogits() has left becomes [N, L] on every rank, in its
// place. For who reads logits itself: to draw, no rank needs all of them.
absl::Status GatherLogits(const Head& head, RowCount rows, float* logits,
                          OperatorSet& operators);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_HEAD_H_
