#include "tests/worker_service/ranks/random_model.h"

#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "common/status_macros.h"
#include "tests/testing/matrices.h"
#include "tests/worker_service/model/synthetic_tensors.h"
#include "worker_service/model/checkpoint_tensors.h"
#include "worker_service/model/model_shard.h"
#include "worker_service/model/weights.h"

namespace bole::testing {
namespace {

// Values that a tensor of this name may have in a trained model.
void Fill(const std::string& name, const TensorView& tensor, std::mt19937& rng,
          std::span<float> values) {
  if (name.ends_with("A_log")) {
    for (float& x : values) x = Uniform(rng, 0, 2);
  } else if (name.ends_with("dt_bias")) {
    for (float& x : values) x = Uniform(rng, -4, -1);
  } else if (name.ends_with("conv1d.weight")) {
    FillNormal(rng, 0.5f, values);
  } else if (tensor.shape.size() == 1) {
    const bool is_plain = name.ends_with("linear_attn.norm.weight");
    FillNormal(rng, 0.1f, values);
    if (is_plain) {
      for (float& x : values) x += 1;
    }
  } else if (name.ends_with("embed_tokens.weight")) {
    FillNormal(rng, 1, values);
  } else {
    // Products of normalised rows deviate by 1.
    FillNormal(rng, 1 / std::sqrt(static_cast<float>(tensor.shape.back())),
               values);
  }
}

}  // namespace

ModelConfig SmallDenseConfig() {
  ModelConfig config;
  config.hidden_size = 48;
  config.vocab_size = 1300;
  config.max_position_embeddings = 4096;
  config.rms_norm_eps = 1e-6f;
  config.layer_kinds = {LayerKind::kLinearAttention, LayerKind::kFullAttention,
                        LayerKind::kLinearAttention,
                        LayerKind::kLinearAttention};
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.rope = {.rotary_dim = 4, .theta = 1e7};
  config.linear_num_key_heads = 4;
  config.linear_num_value_heads = 12;
  config.linear_key_head_dim = 16;
  config.linear_value_head_dim = 8;
  config.linear_conv_kernel = 4;
  config.intermediate_size = 96;
  config.num_mtp_layers = 1;
  return config;
}

ModelConfig SmallMoeConfig() {
  ModelConfig config = SmallDenseConfig();
  config.intermediate_size = 0;
  config.moe = MoeConfig{.num_experts = 6,
                         .experts_per_token = 2,
                         .intermediate_size = 64,
                         .shared_intermediate_size = 96};
  return config;
}

RandomModel::RandomModel(const ModelConfig& config, uint32_t seed)
    : config_(config),
      tensors_(SyntheticTensors(config, SyntheticLayout{}).tensors()) {
  std::mt19937 rng(seed);
  for (auto& [name, tensor] : tensors_) {
    std::vector<float>& values = data_[name];
    values.resize(static_cast<size_t>(tensor.num_elements()));
    Fill(name, tensor, rng, values);
    tensor.dtype = StoredDtype::kF32;
    tensor.data = std::as_bytes(std::span(values));
  }
}

absl::StatusOr<LoadedModel> RandomModel::Load(Backend& backend) const {
  BOLE_ASSIGN_OR_RETURN(const CheckpointTensors tensors,
                        ResolveTensors(tensors_, config_));
  BOLE_ASSIGN_OR_RETURN(const ModelShard shard,
                        ShardOf(config_, backend.rank()));
  BOLE_ASSIGN_OR_RETURN(Weights weights,
                        LoadWeights(tensors, shard, backend, backend));
  LoadedModel model;
  model.config = shard.config;
  model.num_ids = config_.vocab_size;
  model.weights = std::make_unique<Weights>(std::move(weights));
  return model;
}

}  // namespace bole::testing
