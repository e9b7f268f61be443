// The part of a model that each of several ranks holds (tensor parallelism).
#ifndef BOLE_WORKER_SERVICE_MODEL_MODEL_SHARD_H_
#define BOLE_WORKER_SERVICE_MODEL_MODEL_SHARD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/rank.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/weight_slice.h"

namespace bole {

// The cuts below are named after the tensors of checkpoint_tensors.h. Tensors
// without a cut here are whole on every rank: embeddings, norms, routers and
// the drafter's `fc`.
//
// Layers are cut by heads and by the width of the FFN, so that each layer needs
// exactly two sums over the ranks: after the mixer's output product and after
// the FFN's. Whatever between them is not cut is computed on every rank from
// the same bits.

// Cut by key head and by value head: q, k, v, z, beta and decay are cut
// separately. A rank holds the value heads that read its key heads.
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

// Cut by query head, each with its gate. If there are more ranks than KV heads,
// ranks share copies of them: rank r has KV head r Hkv / n, rounded down, which
// all its query heads use.
struct AttentionCuts {
  TensorCut q_proj;  // [Hq * 2 hd, H]
  TensorCut k_proj;  // [Hkv * hd, H]
  TensorCut v_proj;  // [Hkv * hd, H]
  TensorCut o_proj;  // [H, Hq * hd] by column.
};

// Cut by width: with a mixture, each rank has a part of every expert.
struct FfnCuts {
  TensorCut gate_proj;  // [I, H]
  TensorCut up_proj;    // [I, H]
  TensorCut down_proj;  // [H, I] by column.
};

struct ModelShard {
  Rank rank;
  ModelConfig whole;
  // The model that the rank's layers form: the heads and widths that it holds,
  // and everything else as in `whole`, including the vocabulary.
  ModelConfig config;

  GdnCuts gdn;
  AttentionCuts attention;  // The drafter's layer, too.
  FfnCuts ffn;              // The dense FFN, or an expert.
  FfnCuts shared_expert;    // Equals `ffn` without a mixture.
  // [V, H] A rank has whole groups of kHeadGroupTokens tokens; only the last
  // group of the vocabulary may be shorter. If the groups do not divide evenly,
  // the first ranks have one more. If there are fewer groups than ranks, some
  // ranks have no rows.
  TensorCut head;
};

// Returns the part of `rank`. With one rank it is the whole model.
//
// INVALID_ARGUMENT, naming the tensor, its size and the number of ranks: heads
// do not divide among the ranks, or the width of an FFN does not in multiples
// of kFfnWidthUnit. REQUIRES: 0 <= rank.index < rank.count.
absl::StatusOr<ModelShard> ShardOf(const ModelConfig& config, Rank rank);

// The width of a part of an FFN is a multiple of this: a vector of 16 bytes.
inline constexpr int kFfnWidthUnit = 8;

// The tokens whose rows of the head each rank has, by rank.
// REQUIRES: num_ranks >= 1.
std::vector<IndexRange> HeadTokens(int vocabulary, int num_ranks);
// The number of these rows, by rank.
std::vector<int> HeadRows(const ModelShard& shard);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MODEL_SHARD_H_
