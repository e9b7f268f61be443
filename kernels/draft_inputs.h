#ifndef BOLE_KERNELS_DRAFT_INPUTS_H_
#define BOLE_KERNELS_DRAFT_INPUTS_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace bole {

// What the drafter's first product reads: the embedding of a row's token beside
// the hidden vector that it continues, each with a norm of its own, as RmsNorm
// of kernels/dense.h defines it:
//   out = RmsNorm(table[token]) | RmsNorm(hidden[hidden_row]).
struct DraftInputsParams {
  RowCount rows;
  int width;  // H
  float epsilon;
  const int32_t* token;         // [N] in [0, V).
  const WeightMatrix* table;    // [V, H]
  const float* embedding_norm;  // [H]
  const int32_t* hidden_row;    // [N]
  const Activation* hidden;     // [., H]
  const float* hidden_norm;     // [H]
  Activation* out;              // [N, 2 H], not overlapping `hidden`.
};

}  // namespace bole

#endif  // BOLE_KERNELS_DRAFT_INPUTS_H_
