// What each of several ranks holds of a model (tensor parallelism).
#ifndef BOLE_WORKER_SERVICE_MODEL_MODEL_SHARD_H_
#define BOLE_WORKER_SERVICE_MODEL_MODEL_SHARD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/rank.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/weight_slice.h"

namespace bole {

// The cuts below are named as the tensors of checkpoint_tensors.h. A tensor
// that has no cut there is on every rank whole: embeddings, norms, routers and
// the drafter's `fc`.
//
// Layers are cut by heads and by the width of the FFN, so that each has exactly
// two sums over the ranks: after the mixer's output product and after the
// FFN's. Everything between them that is not cut is computed on every rank from
// the same bits.

// By key head and by value head: q, k, v, z, beta and decay each apart. The
// value heads that read a key head are on its rank.
struct GdnCuts {
  TensorCut in_proj_qkv;  // [C, H] q | k | v of the rank.
  TensorCut in_proj_z;    // [Hv * dv, H]
  TensorCut in_proj_b;    // [Hv, H]
  TensorCut in_proj_a;    // [Hv, H]
  TensorCut conv1d;       // [C, 1, taps] channels as in_proj_qkv.
  TensorCut a_log;        // [Hv]
  TensorCut dt_bias;      // [Hv]
  TensorCut out_proj;     // [H, Hv * dv] by column.
};

// By query head, each with its gate. With more ranks than KV heads, ranks have
// copies: rank r has KV head r Hkv / n, rounded down, which is that of all its
// query heads.
struct AttentionCuts {
  TensorCut q_proj;  // [Hq * 2 hd, H]
  TensorCut k_proj;  // [Hkv * hd, H]
  TensorCut v_proj;  // [Hkv * hd, H]
  TensorCut o_proj;  // [H, Hq * hd] by column.
};

// By width: of a mixture, each rank has a part of every expert.
struct FfnCuts {
  TensorCut gate_proj;  // [I, H]
  TensorCut up_proj;    // [I, H]
  TensorCut down_proj;  // [H, I] by column.
};

struct ModelShard {
  Rank rank;
  ModelConfig whole;
  // The model that the rank's layers are: the heads and widths that it holds,
  // and everything else as in `whole`, the vocabulary included.
  ModelConfig config;

  GdnCuts gdn;
  AttentionCuts attention;  // The drafter's layer, too.
  FfnCuts ffn;              // The dense FFN, or an expert.
  FfnCuts shared_expert;    // As `ffn` without a mixture.
  // [V, H] whole groups of kHeadGroupTokens tokens, the last one of the
  // vocabulary as long as it is; the first ranks have one more where they do
  // not divide. A rank has no rows if there are fewer groups than ranks.
  TensorCut head;
};

// The part of `rank`. With one rank it is the whole model.
//
// INVALID_ARGUMENT, naming the tensor, its size and the number of ranks: heads
// do not divide among the ranks, or the width of an FFN does not in multiples
// of kFfnWidthUnit. REQUIRES: 0 <= rank.index < rank.count.
absl::StatusOr<ModelShard> ShardOf(const ModelConfig& config, Rank rank);

// Parts of an FFN are so many wide, or a multiple: a vector of 16 bytes.
inline constexpr int kFfnWidthUnit = 8;

// The tokens whose rows of the head each rank has, by rank.
// REQUIRES: num_ranks >= 1.
std::vector<IndexRange> HeadTokens(int vocabulary, int num_ranks);
// How many these are.
std::vector<int> HeadRows(const ModelShard& shard);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MODEL_SHARD_H_
