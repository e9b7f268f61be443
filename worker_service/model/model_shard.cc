#include "worker_service/model/model_shard.h"

#include <algorithm>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/sampling.h"

namespace bole {
namespace {

// A number of `what` that is divided among the ranks.
struct Division {
  const char* tensor;  // The first one that is cut, for messages.
  const char* what;
  int size;
  int unit;  // Each rank has a multiple.
};

absl::StatusOr<IndexRange> PartOf(const Division& division, Rank rank) {
  const int n = rank.count;
  if (n > 1 && division.size % (n * division.unit) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        division.tensor, ": ", division.what, " ", division.size,
        " does not divide among ", n, " ranks",
        division.unit == 1 ? ""
                           : absl::StrCat(" in multiples of ", division.unit)));
  }
  const int count = division.size / n;
  return IndexRange{rank.index * count, count};
}

// Divides the KV heads, or copies each to several ranks.
absl::StatusOr<IndexRange> KvHeadsOf(int kv_heads, Rank rank) {
  if (kv_heads % rank.count != 0 && rank.count % kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "self_attn.k_proj.weight: num_key_value_heads ", kv_heads,
        " neither divides among ", rank.count, " ranks nor divides them"));
  }
  return IndexRange{rank.index * kv_heads / rank.count,
                    std::max(1, kv_heads / rank.count)};
}

// The rows or columns of a range of items that have `unit` each.
IndexRange Times(const IndexRange& range, int unit) {
  return {range.first * unit, range.count * unit};
}

IndexRange From(int first, const IndexRange& range) {
  return {first + range.first, range.count};
}

TensorCut ByRow(IndexRange rows, int columns) {
  return {.rows = {rows}, .columns = {0, columns}};
}

TensorCut ByColumn(int rows, IndexRange columns) {
  return {.rows = {{0, rows}}, .columns = columns};
}

GdnCuts CutGdn(const ModelConfig& config, const IndexRange& key_heads,
               const IndexRange& value_heads) {
  const int h = config.hidden_size;
  const IndexRange keys = Times(key_heads, config.linear_key_head_dim);
  const IndexRange values = Times(value_heads, config.linear_value_head_dim);
  const std::vector<IndexRange> channels = {keys, From(config.key_dim(), keys),
                                            From(2 * config.key_dim(), values)};
  return {
      .in_proj_qkv = {.rows = channels, .columns = {0, h}},
      .in_proj_z = ByRow(values, h),
      .in_proj_b = ByRow(value_heads, h),
      .in_proj_a = ByRow(value_heads, h),
      .conv1d = {.rows = channels, .columns = {0, config.linear_conv_kernel}},
      .a_log = ByRow(value_heads, 1),
      .dt_bias = ByRow(value_heads, 1),
      .out_proj = ByColumn(h, values)};
}

AttentionCuts CutAttention(const ModelConfig& config,
                           const IndexRange& query_heads,
                           const IndexRange& kv_heads) {
  const int h = config.hidden_size;
  const IndexRange keys = Times(kv_heads, config.head_dim);
  return {.q_proj = ByRow(Times(query_heads, 2 * config.head_dim), h),
          .k_proj = ByRow(keys, h),
          .v_proj = ByRow(keys, h),
          .o_proj = ByColumn(h, Times(query_heads, config.head_dim))};
}

FfnCuts CutFfn(const ModelConfig& config, const IndexRange& width) {
  const int h = config.hidden_size;
  return {.gate_proj = ByRow(width, h),
          .up_proj = ByRow(width, h),
          .down_proj = ByColumn(h, width)};
}

absl::Status CutMixers(ModelShard& shard) {
  const ModelConfig& whole = shard.whole;
  BOLE_ASSIGN_OR_RETURN(const IndexRange key_heads,
                        PartOf({.tensor = "linear_attn.in_proj_qkv.weight",
                                .what = "linear_num_key_heads",
                                .size = whole.linear_num_key_heads,
                                .unit = 1},
                               shard.rank));
  const IndexRange value_heads = Times(
      key_heads, whole.linear_num_value_heads / whole.linear_num_key_heads);
  BOLE_ASSIGN_OR_RETURN(const IndexRange query_heads,
                        PartOf({.tensor = "self_attn.q_proj.weight",
                                .what = "num_attention_heads",
                                .size = whole.num_attention_heads,
                                .unit = 1},
                               shard.rank));
  BOLE_ASSIGN_OR_RETURN(const IndexRange kv_heads,
                        KvHeadsOf(whole.num_key_value_heads, shard.rank));
  shard.gdn = CutGdn(whole, key_heads, value_heads);
  shard.attention = CutAttention(whole, query_heads, kv_heads);
  shard.config.linear_num_key_heads = key_heads.count;
  shard.config.linear_num_value_heads = value_heads.count;
  shard.config.num_attention_heads = query_heads.count;
  shard.config.num_key_value_heads = kv_heads.count;
  return absl::OkStatus();
}

absl::StatusOr<IndexRange> FfnPartOf(const char* tensor, const char* what,
                                     int size, Rank rank) {
  return PartOf(
      {.tensor = tensor, .what = what, .size = size, .unit = kFfnWidthUnit},
      rank);
}

absl::Status CutFfns(ModelShard& shard) {
  const ModelConfig& whole = shard.whole;
  if (!whole.moe) {
    BOLE_ASSIGN_OR_RETURN(const IndexRange width,
                          FfnPartOf("mlp.gate_proj.weight", "intermediate_size",
                                    whole.intermediate_size, shard.rank));
    shard.ffn = CutFfn(whole, width);
    shard.shared_expert = shard.ffn;
    shard.config.intermediate_size = width.count;
    return absl::OkStatus();
  }
  BOLE_ASSIGN_OR_RETURN(
      const IndexRange width,
      FfnPartOf("mlp.experts.gate_up_proj", "moe_intermediate_size",
                whole.moe->intermediate_size, shard.rank));
  BOLE_ASSIGN_OR_RETURN(
      const IndexRange shared_width,
      FfnPartOf("mlp.shared_expert.gate_proj.weight",
                "shared_expert_intermediate_size",
                whole.moe->shared_intermediate_size, shard.rank));
  shard.ffn = CutFfn(whole, width);
  shard.shared_expert = CutFfn(whole, shared_width);
  shard.config.moe->intermediate_size = width.count;
  shard.config.moe->shared_intermediate_size = shared_width.count;
  return absl::OkStatus();
}

}  // namespace

std::vector<IndexRange> HeadTokens(int vocabulary, int num_ranks) {
  const int groups = (vocabulary + kHeadGroupTokens - 1) / kHeadGroupTokens;
  std::vector<IndexRange> parts;
  int first = 0;
  for (int r = 0; r < num_ranks; ++r) {
    const int of_rank = groups / num_ranks + (r < groups % num_ranks ? 1 : 0);
    const int end = std::min(vocabulary, first + of_rank * kHeadGroupTokens);
    parts.push_back({first, end - first});
    first = end;
  }
  return parts;
}

std::vector<int> HeadRows(const ModelShard& shard) {
  std::vector<int> rows;
  for (const IndexRange& tokens :
       HeadTokens(shard.whole.vocab_size, shard.rank.count)) {
    rows.push_back(tokens.count);
  }
  return rows;
}

absl::StatusOr<ModelShard> ShardOf(const ModelConfig& config, Rank rank) {
  BOLE_CHECK(0 <= rank.index && rank.index < rank.count);
  ModelShard shard{.rank = rank,
                   .whole = config,
                   .config = config,
                   .gdn = {},
                   .attention = {},
                   .ffn = {},
                   .shared_expert = {},
                   .head = {}};
  BOLE_RETURN_IF_ERROR(CutMixers(shard));
  BOLE_RETURN_IF_ERROR(CutFfns(shard));
  shard.head = ByRow(HeadTokens(config.vocab_size, rank.count)[rank.index],
                     config.hidden_size);
  return shard;
}

}  // namespace bole
