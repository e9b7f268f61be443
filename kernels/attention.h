#ifndef BOLE_KERNELS_ATTENTION_H_
#define BOLE_KERNELS_ATTENTION_H_

#include <cstdint>

#include "kernels/row_batch.h"
#include "kernels/tensor.h"

namespace bole {

// Gated full attention over paged keys and values.
//
// A layer's keys and values begin at KV index `first_key`, a constant of the
// layer: those that are rotated by position p lie at KV index first_key + p.
// Entries before first_key are unused: they are never written, have no weight
// in any result, and may be NaN. first_key is 0, except where an entry is known
// only with the token after it, as in the drafter's layer.

struct AttentionShape {
  int query_heads;  // Hq, a multiple of Hkv.
  int kv_heads;     // Hkv
  int head_dim;     // hd
  int rotary_dim;   // Leading dimensions that are rotated; even, <= hd.

  constexpr int query_width() const { return query_heads * head_dim; }
  constexpr int kv_width() const { return kv_heads * head_dim; }
  // The projected row: per query head q | gate, then all k, then all v.
  constexpr int k_column() const { return 2 * query_width(); }
  constexpr int v_column() const { return k_column() + kv_width(); }
  constexpr int projected_width() const { return v_column() + kv_width(); }
};

// The KV memory of every attention layer, in pages numbered by the scheduler.
// Keys are stored after norm and rotation.
struct KvPages {
  Activation* k;  // [layers, num_pages, Hkv, page_size, hd]
  Activation* v;  // the same
  int num_layers;
  int num_pages;
  int page_size;  // Tokens.
};

// Splits the projected row, normalises and rotates q and k, and writes k and v
// to KV index first_key + committed + node. Positions do not depend on
// first_key. The pages must have room for it.
struct QkvParams {
  RowBatch batch;
  AttentionShape shape;
  KvPages pages;
  int layer;
  int first_key = 0;
  float epsilon;
  const Activation* projected;     // [N, projected_width]
  const float* q_norm;             // [hd], 1 added.
  const float* k_norm;             // [hd], 1 added.
  const float* inverse_frequency;  // [rotary_dim / 2]
  float rotary_scale;              // Multiplies cos and sin; 1 without YaRN.
  Activation* q;                   // [N, Hq, hd] out.
};

// out = softmax(q k^T / sqrt(hd)) v * sigmoid(gate): each row attends to the
// committed prefix, its ancestors and itself.
struct AttentionParams {
  RowBatch batch;
  AttentionShape shape;
  KvPages pages;
  int layer;
  int first_key = 0;
  const Activation* q;          // [N, Hq, hd]
  const Activation* projected;  // [N, projected_width], the gates are read.
  Activation* out;              // [N, Hq * hd]
};

// PrepareQkv and Attend in one operator, for a batch in which each request has
// at most one row, node 0. q need not be written; its content is unspecified
// afterwards. The topology, and committed keys and values, may be read while
// the previous operator is still running, so that operator must not write them.
struct AttentionDecodeParams {
  QkvParams qkv;
  AttentionParams attend;
};

// Moves the path's keys and values of layers 0 .. num_layers - 1, whose
// first_key is 0, from KV index committed + node to committed + index in the
// path, where later rounds read them.
struct CompactKvParams {
  RowBatch batch;
  RowPath path;
  AttentionShape shape;
  KvPages pages;
  int num_layers;
};

}  // namespace bole

#endif  // BOLE_KERNELS_ATTENTION_H_
