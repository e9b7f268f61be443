#ifndef BOLE_KERNELS_GDN_H_
#define BOLE_KERNELS_GDN_H_

#include <cstdint>

#include "kernels/row_batch.h"
#include "kernels/tensor.h"

namespace bole {

// Gated DeltaNet, the linear attention of a hybrid model. Per value head, with
// the state S [dv, dk] in float32 and the row's q (scaled), k (normalised), v:
//
//   S <- exp(g) S;  u = beta (v - S k);  S <- S + u k^T;  o = S q  (Eq. 1)
//
// Value head h reads key head h / (Hv / Hk).

struct GdnShape {
  int key_heads;    // Hk
  int value_heads;  // Hv, a multiple of Hk.
  int key_dim;      // dk
  int value_dim;    // dv
  int conv_taps;    // Width of the causal convolution; 4.

  constexpr int key_width() const { return key_heads * key_dim; }
  constexpr int value_width() const { return value_heads * value_dim; }
  // C: the channels of the convolution, q | k | v.
  constexpr int conv_width() const { return 2 * key_width() + value_width(); }
  // The projected row: q | k | v | z | b | a.
  constexpr int z_column() const { return conv_width(); }
  constexpr int b_column() const { return z_column() + value_width(); }
  constexpr int a_column() const { return b_column() + value_heads; }
  constexpr int projected_width() const { return a_column() + value_heads; }
};

// The persistent memory of all linear layers. A slot belongs to one request.
struct GdnStates {
  float* state;        // [slots, L, Hv, dv, dk]
  Activation* window;  // [slots, L, taps, C] raw projections of the last `taps`
                       // tokens, oldest first. The convolution reads the last
                       // taps - 1; rows before the sequence are zero.
  int num_slots;
  int num_layers;  // L
};

// What a round keeps of every row and layer from verification to commit. The
// state after each node is not kept unless requested, so rejected nodes cost
// nothing more. Layer l starts at row l * layer_rows of each array; with
// layer_rows 0 all layers share the same rows, for rows whose factors no commit
// will read.
struct GdnFactors {
  Activation* raw;   // [L, N, C] the projection before the convolution.
  Activation* k;     // [L, N, Hk, dk] after convolution and SiLU.
  Activation* v;     // [L, N, Hv, dv]
  float* k_scale;    // [L, N, Hk] k * k_scale is the normalised key.
  float* beta;       // [L, N, Hv] write gate, in (0, 1).
  float* log_decay;  // [L, N, Hv] g <= 0.
  int layer_rows;    // N, or 0.
  // [L, N, Hv, dv, dk] the state after each row; null: not kept. Only with
  // kSerial, which fills it for GdnCommitStates to copy from.
  float* node_states = nullptr;
};

// Tree convolution, SiLU, key and query scales, gates (Sec. IV-C, stage 1). The
// window of a row is the row, its ancestors, then the slot's window.
struct GdnConvParams {
  RowBatch batch;
  GdnShape shape;
  GdnStates states;
  int layer;
  const Activation* projected;  // [N, projected_width]
  const float* conv_weight;     // [C, taps], the last tap is the row itself.
  const float* negative_exp_a;  // [Hv] -exp(A_log)
  const float* dt_bias;         // [Hv]
  Activation* q;                // [N, Hk, dk] out, after SiLU.
  float* q_scale;               // [N, Hk] out: rsqrt(sum q^2 + 1e-6) dk^-0.5.
  GdnFactors factors;           // out, this layer.
};

// How verification solves (I + G) U = R.
enum class TreeSolver {
  kBlocks,   // Forward substitution over 16-row blocks: the solver in use.
  kNeumann,  // Eq. 6: the finite series, depth-many products.
  kSerial,   // Node by node: the definition. With factors.node_states each
             // node starts from its parent's state and keeps its own.
};

// The core of a linear layer. Which of the three entry points runs decides what
// happens to the state:
//   GdnVerify   o of every node of a forest from the committed state, which is
//               only read (Eq. 2). Decays enter as exp(Gamma_i - Gamma_j) for
//               an ancestor j of i, never as a ratio of products.
//   GdnDecode   one row per request; the state advances by that row.
//   GdnPrefill  chains (mask_words == 0), in the chunked form, with chunks cut
//               at absolute positions divisible by 64; the state advances by
//               all rows.
struct GdnCoreParams {
  RowBatch batch;
  GdnShape shape;
  GdnStates states;
  int layer;
  const Activation* q;   // [N, Hk, dk]
  const float* q_scale;  // [N, Hk]
  GdnFactors factors;    // This layer's k, v, k_scale, beta, log_decay.
  TreeSolver solver;     // Read by GdnVerify.
  Activation* out;       // [N, Hv, dv]
};

// out = rmsnorm(o) * weight * silu(z), per value head.
struct GdnGatedNormParams {
  RowCount rows;
  GdnShape shape;
  float epsilon;
  const Activation* o;          // [N, Hv, dv]
  const Activation* projected;  // [N, projected_width], z is read.
  const float* weight;          // [dv], as stored: no 1 added.
  Activation* out;              // [N, Hv * dv], may be o.
};

// GdnCommitStates replays the path's rows on the slot's state of layers
// first_layer .. first_layer + num_layers - 1, with the arithmetic of
// GdnDecode: bitwise the recurrence over the path's own operands (the exact
// form of Eq. 10). With factors.node_states it copies the state after the
// path's last row instead. GdnCommitWindows shifts the path's raw rows into the
// windows.
struct GdnCommitParams {
  RowBatch batch;
  RowPath path;
  GdnShape shape;
  GdnStates states;
  GdnFactors factors;
  int first_layer;
  int num_layers;
};

// Runs one row of each request through a layer, from its projection to the
// gated norm: GdnConv, GdnDecode, GdnCommitWindows and GdnGatedNorm one after
// the other on the same rows and layer. Intermediate results need not be
// written: the content of q and factors, and of core.out if it is not norm.out,
// is unspecified afterwards.
struct GdnDecodeLayerParams {
  GdnConvParams conv;
  GdnCoreParams core;
  GdnCommitParams windows;  // All rows are committed.
  GdnGatedNormParams norm;
};

// Runs the rows of a forest through a layer, from their projection to the gated
// norm: GdnConv, GdnVerify and GdnGatedNorm one after the other on the same
// rows and layer. The factors are written, but the content of q and q_scale,
// and of core.out if it is not norm.out, is unspecified afterwards.
struct GdnVerifyLayerParams {
  GdnConvParams conv;
  GdnCoreParams core;
  GdnGatedNormParams norm;
};

}  // namespace bole

#endif  // BOLE_KERNELS_GDN_H_
