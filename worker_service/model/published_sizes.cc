#include "worker_service/model/published_sizes.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace bole {
namespace {

// What differs between sizes. One of I and E is 0.
struct Size {
  std::string_view name;
  int layers;
  int hidden;        // H
  int intermediate;  // I
  int query_heads;   // Hq
  int kv_heads;      // Hkv
  int key_heads;     // Hk
  int value_heads;   // Hv
  int experts;       // E
  int top_k;         // Experts per token.
  int expert_width;  // m and ms
  bool is_tied;
};

constexpr Size kSizes[] = {
    {"0.8B", 24, 1024, 3584, 8, 2, 16, 16, 0, 0, 0, true},
    {"2B", 24, 2048, 6144, 8, 2, 16, 16, 0, 0, 0, true},
    {"4B", 32, 2560, 9216, 16, 4, 16, 32, 0, 0, 0, true},
    {"9B", 32, 4096, 12288, 16, 4, 16, 32, 0, 0, 0, false},
    {"27B", 64, 5120, 17408, 24, 4, 16, 48, 0, 0, 0, false},
    {"35B-A3B", 40, 2048, 0, 16, 2, 16, 32, 256, 8, 512, false},
    {"122B-A10B", 48, 3072, 0, 32, 2, 16, 64, 256, 8, 1024, false},
    {"397B-A17B", 60, 4096, 0, 32, 2, 16, 64, 512, 10, 1024, false},
    {"tiny", 4, 128, 192, 4, 2, 2, 4, 0, 0, 0, false},
    {"tiny-moe", 4, 128, 0, 4, 2, 2, 4, 8, 2, 64, false},
    {"tiny-16", 4, 256, 384, 16, 4, 16, 32, 0, 0, 0, false},
    {"tiny-16-moe", 4, 256, 0, 16, 4, 16, 32, 8, 2, 128, false},
};

ModelConfig ConfigOf(const Size& size) {
  constexpr int kFullAttentionInterval = 4;
  const bool is_tiny = size.name.starts_with("tiny");
  ModelConfig config;
  config.hidden_size = size.hidden;
  config.vocab_size = !is_tiny ? 248320 : size.key_heads == 16 ? 8192 : 2048;
  config.max_position_embeddings = 262144;
  config.rms_norm_eps = 1e-6f;
  for (int i = 1; i <= size.layers; ++i) {
    config.layer_kinds.push_back(i % kFullAttentionInterval == 0
                                     ? LayerKind::kFullAttention
                                     : LayerKind::kLinearAttention);
  }
  config.num_attention_heads = size.query_heads;
  config.num_key_value_heads = size.kv_heads;
  config.head_dim = is_tiny ? 32 : 256;
  config.rope = {.rotary_dim = config.head_dim / 4, .theta = 1e7};
  config.linear_num_key_heads = size.key_heads;
  config.linear_num_value_heads = size.value_heads;
  config.linear_key_head_dim = is_tiny ? 32 : 128;
  config.linear_value_head_dim = is_tiny ? 32 : 128;
  config.linear_conv_kernel = 4;
  config.intermediate_size = size.intermediate;
  if (size.experts > 0) {
    config.moe = MoeConfig{.num_experts = size.experts,
                           .experts_per_token = size.top_k,
                           .intermediate_size = size.expert_width,
                           .shared_intermediate_size = size.expert_width};
  }
  config.tie_word_embeddings = size.is_tied;
  config.num_mtp_layers = 1;
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ConfigOfSize(std::string_view name) {
  std::string names;
  for (const Size& size : kSizes) {
    if (size.name == name) return ConfigOf(size);
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(size.name));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no size \"", std::string(name), "\", only ", names));
}

}  // namespace bole
