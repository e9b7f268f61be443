// What hidden vectors are scored with.
#ifndef BOLE_WORKER_SERVICE_MODEL_HEAD_H_
#define BOLE_WORKER_SERVICE_MODEL_HEAD_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace bole {

// A value; refers to weights, which must outlive it.
struct Head {
  const WeightMatrix* matrix;  // [rows[rank], H]
  std::span<const int> rows;   // Of each rank, by rank; L together.
  // [L] The tokens of all ranks' rows, or null: column v is token v.
  const int32_t* token_of;

  // L: the columns of the logits.
  int columns() const;
};

// logits [N, L], the same on every rank.
absl::Status ComputeLogits(const Head& head, RowCount rows,
                           const Activation* hidden, float* logits,
                           Backend& backend);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_HEAD_H_
