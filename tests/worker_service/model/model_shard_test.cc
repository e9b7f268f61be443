#include "worker_service/model/model_shard.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/synthetic_tensors.h"
#include "worker_service/model/model_config.h"

namespace bole {
namespace {

using Ranges = std::vector<IndexRange>;

ModelShard Shard(const ModelConfig& config, int index, int count) {
  const absl::StatusOr<ModelShard> shard = ShardOf(config, {index, count});
  EXPECT_TRUE(shard.ok()) << shard.status();
  return shard.value_or(ModelShard{});
}

ModelShard Shard(const std::string& size, int index, int count) {
  return Shard(PublishedConfig(size), index, count);
}

std::string ErrorOf(const ModelConfig& config, int num_ranks) {
  const absl::Status status = ShardOf(config, {0, num_ranks}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// What every published size can be cut into.
struct Case {
  std::string size;
  std::vector<int> ranks;
};
const Case kCases[] = {{"0.8B", {2, 4, 8}},      {"2B", {2, 4, 8}},
                       {"4B", {2, 4, 8, 16}},    {"9B", {2, 4, 8, 16}},
                       {"27B", {2, 4, 8}},       {"35B-A3B", {2, 4, 8}},
                       {"122B-A10B", {2, 4, 8}}, {"397B-A17B", {2, 4, 8, 16}}};

template <typename Check>
void ForEachShard(const Check& check) {
  for (const Case& c : kCases) {
    for (const int n : c.ranks) {
      for (int r = 0; r < n; ++r) {
        SCOPED_TRACE(c.size + ", rank " + std::to_string(r) + " of " +
                     std::to_string(n));
        check(Shard(c.size, r, n));
      }
    }
  }
}

TEST(ModelShardTest, OneRankHasTheWholeModel) {
  const ModelConfig config = PublishedConfig("27B");

  const ModelShard shard = Shard(config, 0, 1);

  EXPECT_EQ(shard.config, config);
  EXPECT_EQ(shard.head.rows, (Ranges{{0, 248320}}));
  EXPECT_EQ(shard.gdn.in_proj_qkv.rows,
            (Ranges{{0, 2048}, {2048, 2048}, {4096, 6144}}));
  EXPECT_EQ(shard.gdn.out_proj,
            (TensorCut{.rows = {{0, 5120}}, .columns = {0, 6144}}));
}

// A packed projection that is cut as a whole gives a rank queries of one head
// and keys of another.
TEST(ModelShardTest, QueriesKeysAndValuesOfAPackedProjectionAreCutEachApart) {
  const ModelShard shard = Shard("27B", 1, 4);

  // 16 key heads and 48 value heads of 128: 4 and 12 on a rank.
  const Ranges channels = {{512, 512}, {2048 + 512, 512}, {4096 + 1536, 1536}};
  EXPECT_EQ(shard.gdn.in_proj_qkv,
            (TensorCut{.rows = channels, .columns = {0, 5120}}));
  EXPECT_EQ(shard.gdn.conv1d, (TensorCut{.rows = channels, .columns = {0, 4}}));
  EXPECT_EQ(shard.gdn.in_proj_z.rows, (Ranges{{1536, 1536}}));
  EXPECT_EQ(shard.config.conv_dim(), 2560);
}

TEST(ModelShardTest, BetaAndDecayAreCutEachApart) {
  const ModelShard shard = Shard("27B", 1, 2);

  for (const TensorCut* cut : {&shard.gdn.in_proj_b, &shard.gdn.in_proj_a}) {
    EXPECT_EQ(*cut, (TensorCut{.rows = {{24, 24}}, .columns = {0, 5120}}));
  }
  for (const TensorCut* cut : {&shard.gdn.a_log, &shard.gdn.dt_bias}) {
    EXPECT_EQ(*cut, (TensorCut{.rows = {{24, 24}}, .columns = {0, 1}}));
  }
}

TEST(ModelShardTest, InputsAndOutputsOfAMixerAreCutAlike) {
  ForEachShard([](const ModelShard& shard) {
    const int dv = shard.whole.linear_value_head_dim;
    const IndexRange values = shard.gdn.in_proj_z.rows[0];
    EXPECT_EQ(shard.gdn.out_proj.columns, values);
    EXPECT_EQ(values.first, shard.gdn.in_proj_b.rows[0].first * dv);
    EXPECT_EQ(values.count, shard.config.value_dim());
    // Each query head has twice as many rows as columns of the output: a gate.
    const IndexRange queries = shard.attention.q_proj.rows[0];
    EXPECT_EQ(shard.attention.o_proj.columns,
              (IndexRange{queries.first / 2, queries.count / 2}));
    EXPECT_EQ(shard.attention.o_proj.columns.count, shard.config.query_dim());
  });
}

// With 8 ranks, 27B has 3 query heads on each, and each KV head on two. The
// gates are the query heads' and not the KV heads'.
TEST(ModelShardTest, GatesFollowTheQueryHeadsWhereKvHeadsAreCopied) {
  for (int r = 0; r < 8; ++r) {
    const ModelShard shard = Shard("27B", r, 8);
    EXPECT_EQ(shard.attention.q_proj.rows, (Ranges{{r * 3 * 512, 3 * 512}}));
    EXPECT_EQ(shard.attention.k_proj.rows, (Ranges{{r / 2 * 256, 256}}));
    EXPECT_EQ(shard.attention.v_proj, shard.attention.k_proj);
    EXPECT_EQ(shard.attention.o_proj.columns, (IndexRange{r * 768, 768}));
    EXPECT_EQ(shard.config.num_attention_heads, 3);
    EXPECT_EQ(shard.config.num_key_value_heads, 1);
  }
}

// The operators pair heads by division: query head h with KV head
// h / (Hq / Hkv), value head h with key head h / (Hv / Hk). On a rank that must
// give the heads that the whole model pairs.
TEST(ModelShardTest, HeadsOfARankArePairedAsThoseOfTheModel) {
  ForEachShard([](const ModelShard& shard) {
    const ModelConfig& whole = shard.whole;
    const ModelConfig& part = shard.config;
    const int hd = whole.head_dim;
    const int first_query = shard.attention.q_proj.rows[0].first / (2 * hd);
    const int first_kv = shard.attention.k_proj.rows[0].first / hd;
    const int group = whole.num_attention_heads / whole.num_key_value_heads;
    ASSERT_EQ(part.num_attention_heads % part.num_key_value_heads, 0);
    const int part_group = part.num_attention_heads / part.num_key_value_heads;
    for (int h = 0; h < part.num_attention_heads; ++h) {
      EXPECT_EQ(first_kv + h / part_group, (first_query + h) / group);
    }

    const int first_key = shard.gdn.in_proj_qkv.rows[0].first / 128;
    const int first_value = shard.gdn.in_proj_b.rows[0].first;
    const int ratio = whole.linear_num_value_heads / whole.linear_num_key_heads;
    ASSERT_EQ(part.linear_num_value_heads, ratio * part.linear_num_key_heads);
    for (int h = 0; h < part.linear_num_value_heads; ++h) {
      EXPECT_EQ(first_key + h / ratio, (first_value + h) / ratio);
    }
  });
}

// gate | up is one matrix of the backend; half of it would be all gates.
TEST(ModelShardTest, GateAndUpAreCutEachApart) {
  const ModelShard dense = Shard("27B", 1, 2);
  EXPECT_EQ(dense.ffn.gate_proj.rows, (Ranges{{8704, 8704}}));
  EXPECT_EQ(dense.ffn.up_proj, dense.ffn.gate_proj);
  EXPECT_EQ(dense.ffn.down_proj,
            (TensorCut{.rows = {{0, 5120}}, .columns = {8704, 8704}}));
  EXPECT_EQ(dense.config.intermediate_size, 8704);

  const ModelShard moe = Shard("122B-A10B", 3, 4);
  EXPECT_EQ(moe.ffn.up_proj.rows, (Ranges{{768, 256}}));
  EXPECT_EQ(moe.shared_expert.down_proj,
            (TensorCut{.rows = {{0, 3072}}, .columns = {768, 256}}));
  EXPECT_EQ(moe.config.moe->num_experts, 256);
  EXPECT_EQ(moe.config.moe->intermediate_size, 256);
  EXPECT_EQ(moe.config.moe->shared_intermediate_size, 256);
}

TEST(ModelShardTest, TheHeadIsCutInWholeGroups) {
  // 485 groups of 512 tokens.
  EXPECT_EQ(HeadTokens(248320, 2),
            (Ranges{{0, 243 * 512}, {243 * 512, 242 * 512}}));
  EXPECT_EQ(HeadTokens(248320, 4), (Ranges{{0, 122 * 512},
                                           {122 * 512, 121 * 512},
                                           {243 * 512, 121 * 512},
                                           {364 * 512, 121 * 512}}));
  // Two groups and 100 tokens; three ranks of five have none.
  EXPECT_EQ(HeadTokens(1124, 2), (Ranges{{0, 1024}, {1024, 100}}));
  EXPECT_EQ(HeadTokens(600, 5),
            (Ranges{{0, 512}, {512, 88}, {600, 0}, {600, 0}, {600, 0}}));
  EXPECT_EQ(Shard("9B", 1, 2).head.rows, (Ranges{{243 * 512, 242 * 512}}));
  EXPECT_EQ(Shard("9B", 1, 2).config.vocab_size, 248320);
}

TEST(ModelShardTest, WhatDoesNotDivideIsRefusedByName) {
  EXPECT_EQ(ErrorOf(PublishedConfig("27B"), 16),
            "self_attn.q_proj.weight: num_attention_heads 24 does not divide "
            "among 16 ranks");
  EXPECT_EQ(ErrorOf(PublishedConfig("9B"), 3),
            "linear_attn.in_proj_qkv.weight: linear_num_key_heads 16 does not "
            "divide among 3 ranks");
  ModelConfig config = PublishedConfig("9B");
  config.num_attention_heads = 18;
  config.num_key_value_heads = 6;
  config.linear_num_key_heads = config.linear_num_value_heads = 18;
  EXPECT_EQ(ErrorOf(config, 9),
            "self_attn.k_proj.weight: num_key_value_heads 6 neither divides "
            "among 9 ranks nor divides them");
  config = PublishedConfig("9B");
  config.intermediate_size = 12280;
  EXPECT_EQ(ErrorOf(config, 2),
            "mlp.gate_proj.weight: intermediate_size 12280 does not divide "
            "among 2 ranks in multiples of 8");
  config = PublishedConfig("35B-A3B");
  config.moe->intermediate_size = 40;
  EXPECT_EQ(ErrorOf(config, 2),
            "mlp.experts.gate_up_proj: moe_intermediate_size 40 does not "
            "divide among 2 ranks in multiples of 8");
  config.moe->intermediate_size = 512;
  config.moe->shared_intermediate_size = 24;
  EXPECT_EQ(ErrorOf(config, 2),
            "mlp.shared_expert.gate_proj.weight: "
            "shared_expert_intermediate_size 24 does not divide among 2 ranks "
            "in multiples of 8");
  // One rank takes any size.
  EXPECT_TRUE(ShardOf(config, {0, 1}).ok());
}

}  // namespace
}  // namespace bole
