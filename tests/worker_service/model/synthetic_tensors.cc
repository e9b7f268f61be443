#include "tests/worker_service/model/synthetic_tensors.h"

#include <sys/mman.h>

#include <utility>

#include "common/check.h"

namespace bole {
namespace {

// More than the largest tensor: the stacked experts of the 397B model, 8 GiB.
constexpr size_t kReservedBytes = size_t{16} << 30;

}  // namespace

SyntheticTensors::SyntheticTensors(const ModelConfig& config,
                                   const SyntheticLayout& layout)
    : config_(config) {
  void* address = mmap(nullptr, kReservedBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  BOLE_CHECK(address != MAP_FAILED);
  reserved_ = {static_cast<const std::byte*>(address), kReservedBytes};

  const int64_t v = config.vocab_size;
  const int64_t h = config.hidden_size;
  Add(layout.prefix + "embed_tokens.weight", {v, h});
  Add(layout.prefix + "norm.weight", {h});
  if (!config.tie_word_embeddings) Add("lm_head.weight", {v, h});
  for (int i = 0; i < config.num_layers(); ++i) {
    const std::string prefix =
        layout.prefix + "layers." + std::to_string(i) + ".";
    if (config.layer_kinds[static_cast<size_t>(i)] ==
        LayerKind::kFullAttention) {
      AddAttention(prefix);
    } else {
      AddGdn(prefix);
    }
    AddFeedForward(prefix, layout.stacked_experts);
  }
  if (!layout.has_drafter) return;
  Add("mtp.fc.weight", {h, 2 * h});
  for (const char* norm :
       {"pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"}) {
    Add(std::string("mtp.") + norm + ".weight", {h});
  }
  AddAttention("mtp.layers.0.");
  AddFeedForward("mtp.layers.0.", layout.stacked_drafter_experts);
}

SyntheticTensors::~SyntheticTensors() {
  munmap(const_cast<std::byte*>(reserved_.data()), reserved_.size());
}

int64_t SyntheticTensors::NumElements(const std::string& prefix) const {
  int64_t count = 0;
  for (const auto& [name, tensor] : tensors_) {
    if (name.starts_with(prefix)) count += tensor.num_elements();
  }
  return count;
}

void SyntheticTensors::Add(const std::string& name,
                           std::vector<int64_t> shape) {
  size_t bytes = 2;
  for (const int64_t dimension : shape) bytes *= static_cast<size_t>(dimension);
  BOLE_CHECK(bytes <= reserved_.size());
  const bool is_new =
      tensors_
          .emplace(name, TensorView{.name = name,
                                    .dtype = StoredDtype::kBF16,
                                    .shape = std::move(shape),
                                    .data = reserved_.first(bytes)})
          .second;
  BOLE_CHECK(is_new);
}

void SyntheticTensors::AddAttention(const std::string& prefix) {
  const int64_t h = config_.hidden_size;
  const int64_t hd = config_.head_dim;
  const int64_t query_heads = config_.num_attention_heads;
  const int64_t kv_heads = config_.num_key_value_heads;
  Add(prefix + "self_attn.q_proj.weight", {query_heads * 2 * hd, h});
  Add(prefix + "self_attn.k_proj.weight", {kv_heads * hd, h});
  Add(prefix + "self_attn.v_proj.weight", {kv_heads * hd, h});
  Add(prefix + "self_attn.o_proj.weight", {h, query_heads * hd});
  Add(prefix + "self_attn.q_norm.weight", {hd});
  Add(prefix + "self_attn.k_norm.weight", {hd});
}

void SyntheticTensors::AddGdn(const std::string& prefix) {
  const int64_t h = config_.hidden_size;
  const int64_t value_heads = config_.linear_num_value_heads;
  const int64_t keys =
      int64_t{config_.linear_num_key_heads} * config_.linear_key_head_dim;
  const int64_t values = value_heads * config_.linear_value_head_dim;
  Add(prefix + "linear_attn.in_proj_qkv.weight", {2 * keys + values, h});
  Add(prefix + "linear_attn.in_proj_z.weight", {values, h});
  Add(prefix + "linear_attn.in_proj_b.weight", {value_heads, h});
  Add(prefix + "linear_attn.in_proj_a.weight", {value_heads, h});
  Add(prefix + "linear_attn.conv1d.weight",
      {2 * keys + values, 1, config_.linear_conv_kernel});
  Add(prefix + "linear_attn.A_log", {value_heads});
  Add(prefix + "linear_attn.dt_bias", {value_heads});
  Add(prefix + "linear_attn.norm.weight", {config_.linear_value_head_dim});
  Add(prefix + "linear_attn.out_proj.weight", {h, values});
}

void SyntheticTensors::AddGatedMlp(const std::string& prefix, int64_t width) {
  Add(prefix + "gate_proj.weight", {width, config_.hidden_size});
  Add(prefix + "up_proj.weight", {width, config_.hidden_size});
  Add(prefix + "down_proj.weight", {config_.hidden_size, width});
}

// With the norms before the mixer and the feed-forward.
void SyntheticTensors::AddFeedForward(const std::string& prefix, bool stacked) {
  const int64_t h = config_.hidden_size;
  Add(prefix + "input_layernorm.weight", {h});
  Add(prefix + "post_attention_layernorm.weight", {h});
  if (!config_.moe) {
    AddGatedMlp(prefix + "mlp.", config_.intermediate_size);
    return;
  }
  const int64_t experts = config_.moe->num_experts;
  const int64_t m = config_.moe->intermediate_size;
  Add(prefix + "mlp.gate.weight", {experts, h});
  AddGatedMlp(prefix + "mlp.shared_expert.",
              config_.moe->shared_intermediate_size);
  Add(prefix + "mlp.shared_expert_gate.weight", {1, h});
  if (stacked) {
    Add(prefix + "mlp.experts.gate_up_proj", {experts, 2 * m, h});
    Add(prefix + "mlp.experts.down_proj", {experts, h, m});
    return;
  }
  for (int64_t e = 0; e < experts; ++e) {
    AddGatedMlp(prefix + "mlp.experts." + std::to_string(e) + ".", m);
  }
}

ModelConfig PublishedConfig(const std::string& size) {
  struct Row {
    const char* size;
    int layers, hidden, intermediate, query_heads, kv_heads, value_heads;
    int experts, experts_per_token, expert_width;
    bool tied;
  };
  constexpr Row kRows[] = {
      {"0.8B", 24, 1024, 3584, 8, 2, 16, 0, 0, 0, true},
      {"2B", 24, 2048, 6144, 8, 2, 16, 0, 0, 0, true},
      {"4B", 32, 2560, 9216, 16, 4, 32, 0, 0, 0, true},
      {"9B", 32, 4096, 12288, 16, 4, 32, 0, 0, 0, false},
      {"27B", 64, 5120, 17408, 24, 4, 48, 0, 0, 0, false},
      {"35B-A3B", 40, 2048, 0, 16, 2, 32, 256, 8, 512, false},
      {"122B-A10B", 48, 3072, 0, 32, 2, 64, 256, 8, 1024, false},
      {"397B-A17B", 60, 4096, 0, 32, 2, 64, 512, 10, 1024, false},
  };
  for (const Row& row : kRows) {
    if (size != row.size) continue;
    ModelConfig config;
    config.hidden_size = row.hidden;
    config.vocab_size = 248320;
    config.max_position_embeddings = 262144;
    config.rms_norm_eps = 1e-6f;
    for (int i = 0; i < row.layers; ++i) {
      config.layer_kinds.push_back(i % 4 == 3 ? LayerKind::kFullAttention
                                              : LayerKind::kLinearAttention);
    }
    config.num_attention_heads = row.query_heads;
    config.num_key_value_heads = row.kv_heads;
    config.head_dim = 256;
    config.rope = {.rotary_dim = 64, .theta = 1e7};
    config.linear_num_key_heads = 16;
    config.linear_num_value_heads = row.value_heads;
    config.linear_key_head_dim = 128;
    config.linear_value_head_dim = 128;
    config.linear_conv_kernel = 4;
    config.intermediate_size = row.intermediate;
    if (row.experts > 0) {
      config.moe = MoeConfig{.num_experts = row.experts,
                             .experts_per_token = row.experts_per_token,
                             .intermediate_size = row.expert_width,
                             .shared_intermediate_size = row.expert_width};
    }
    config.tie_word_embeddings = row.tied;
    config.num_mtp_layers = 1;
    return config;
  }
  BOLE_CHECK(false);
  return {};
}

}  // namespace bole
