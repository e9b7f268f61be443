// The output head, which turns hidden vectors into logits.
#ifndef BOLE_WORKER_SERVICE_MODEL_HEAD_H_
#define BOLE_WORKER_SERVICE_MODEL_HEAD_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/operator_set.h"

namespace bole {

// A value type that refers to weights, which must outlive it.
struct Head {
  const WeightMatrix* matrix;  // [rows[rank], H]
  std::span<const int> rows;   // How many rows each rank has; L in all.
  // [L] The tokens of all ranks' rows, or null: column v is token v.
  const int32_t* token_of;

  // L: the columns of all ranks' logits.
  int columns() const;
  // The most rows that a rank has. Arrays of logits have this width on every
  // rank, so that all ranks plan the same memory.
  int most_rows() const;
};

// logits [N, rows of the rank].
absl::Status ComputeLogits(const Head& head, RowCount rows,
                           const Activation* hidden, float* logits,
                           OperatorSet& operators);

// Turns the result of ComputeLogits() into [N, L] on every rank, in place. Only
// callers that read the logits themselves need it: no rank needs all of them to
// draw tokens.
absl::Status GatherLogits(const Head& head, RowCount rows, float* logits,
                          OperatorSet& operators);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_HEAD_H_
