#ifndef BOLE_KERNELS_DENSE_H_
#define BOLE_KERNELS_DENSE_H_

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace bole {

// The dense operators, which compute every row on its own. On the reference
// backend a row's result does not depend, bit for bit, on the other rows it ran
// with.

// out = table[token].
struct EmbedParams {
  RowCount rows;
  const int32_t* token;       // [N] in [0, V).
  const WeightMatrix* table;  // [V, H]
  Activation* out;            // [N, H]
};

// out = x * rsqrt(mean(x^2) + eps) * weight, in float32, rounded once.
struct RmsNormParams {
  RowCount rows;
  int width;  // H
  float epsilon;
  const Activation* x;  // [N, H]
  const float* weight;  // [H], the checkpoint's 1 + w already added.
  Activation* out;      // [N, out_stride], columns out_column ..
  int out_stride;
  int out_column;
};

// out = x W^T, or out += x W^T. Exactly one of `out` and `out_float` is set.
struct MatMulParams {
  RowCount rows;
  const Activation* x;         // [N, weight columns]
  const WeightMatrix* weight;  // [weight rows, weight columns]
  Activation* out;             // [N, weight rows]
  float* out_float;            // [N, weight rows], for logits.
  bool accumulate;             // Add to `out` (the residual stream).
};

// out = silu(gate) * up.
struct SiluMulParams {
  RowCount rows;
  int width;                  // I
  const Activation* gate_up;  // [N, 2 I]: gate | up.
  Activation* out;            // [N, I]
};

// out[i] = x[index[i]].
struct GatherRowsParams {
  RowCount rows;
  int width;             // H
  const int32_t* index;  // [N]
  const Activation* x;   // [., H]
  Activation* out;       // [N, H], not overlapping x.
};

// The sparse FFN of one layer: a softmax over all E router logits, the best
// experts_per_token of them (ties to the lower expert), their weights divided
// by their sum, and
//   out += sum_e w_e down_e(silu(gate_e x) * up_e x)
//          + sigmoid(shared_gate x) * shared(x),
// or, without `accumulate`, out = the same.
struct MoeParams {
  RowCount rows;
  int experts_per_token;
  const Activation* x;                           // [N, H]
  const WeightMatrix* router;                    // [E, H]
  std::span<const WeightMatrix* const> gate_up;  // E of [2 m, H]
  std::span<const WeightMatrix* const> down;     // E of [H, m]
  const WeightMatrix* shared_gate;               // [1, H]
  const WeightMatrix* shared_gate_up;            // [2 ms, H]
  const WeightMatrix* shared_down;               // [H, ms]
  Activation* out;                               // [N, H], not x.
  bool accumulate = true;                        // Add to `out`.
};

}  // namespace bole

#endif  // BOLE_KERNELS_DENSE_H_
