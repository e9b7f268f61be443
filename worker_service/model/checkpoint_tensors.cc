#include "worker_service/model/checkpoint_tensors.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

using Shape = std::vector<int64_t>;

constexpr std::string_view kVisionPrefix = "model.visual.";
constexpr std::string_view kDrafterPrefix = "mtp.";

bool IsReadable(StoredDtype dtype) {
  return dtype == StoredDtype::kF32 || dtype == StoredDtype::kBF16 ||
         dtype == StoredDtype::kF16;
}

// Hands out tensors by name and keeps the first error; after one, the views it
// hands out are empty and must not be used.
class Taker {
 public:
  explicit Taker(const TensorMap& tensors) : tensors_(tensors) {}

  bool Has(const std::string& name) const { return tensors_.contains(name); }

  bool HasPrefix(std::string_view prefix) const {
    const auto first = tensors_.lower_bound(prefix);
    return first != tensors_.end() && first->first.starts_with(prefix);
  }

  TensorView Take(const std::string& name, const Shape& shape) {
    if (!status_.ok()) return {};
    const auto entry = tensors_.find(name);
    if (entry == tensors_.end()) {
      Fail(
          absl::StrCat(name, ": missing, expected shape ", ShapeString(shape)));
      return {};
    }
    const TensorView& tensor = entry->second;
    if (tensor.shape != shape) {
      Fail(absl::StrCat(name, ": shape ", ShapeString(tensor.shape),
                        ", expected ", ShapeString(shape)));
      return {};
    }
    if (!IsReadable(tensor.dtype)) {
      Fail(absl::StrCat(name, ": ", std::string(DtypeName(tensor.dtype)),
                        ", expected F32, BF16 or F16"));
      return {};
    }
    taken_.insert(name);
    return tensor;
  }

  // An error if a tensor was neither taken nor belongs to the vision tower.
  void CheckAllTaken() {
    std::string first;
    int num_unknown = 0;
    for (const auto& [name, tensor] : tensors_) {
      if (taken_.contains(name) || name.starts_with(kVisionPrefix)) continue;
      if (num_unknown++ == 0) first = QuotedName(name);
    }
    if (num_unknown == 0) return;
    Fail(absl::StrCat(first, ": unknown tensor, the first of ", num_unknown));
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
  }

  const absl::Status& status() const { return status_; }

 private:
  const TensorMap& tensors_;
  std::set<std::string, std::less<>> taken_;
  absl::Status status_;
};

GdnTensors TakeGdn(Taker& taker, const std::string& prefix,
                   const ModelConfig& config) {
  const int64_t h = config.hidden_size;
  const int64_t heads = config.linear_num_value_heads;
  const int64_t channels = config.conv_dim();
  const int64_t values = config.value_dim();
  return {
      .in_proj_qkv = taker.Take(prefix + "in_proj_qkv.weight", {channels, h}),
      .in_proj_z = taker.Take(prefix + "in_proj_z.weight", {values, h}),
      .in_proj_b = taker.Take(prefix + "in_proj_b.weight", {heads, h}),
      .in_proj_a = taker.Take(prefix + "in_proj_a.weight", {heads, h}),
      .conv1d = taker.Take(prefix + "conv1d.weight",
                           {channels, 1, config.linear_conv_kernel}),
      .a_log = taker.Take(prefix + "A_log", {heads}),
      .dt_bias = taker.Take(prefix + "dt_bias", {heads}),
      .norm =
          taker.Take(prefix + "norm.weight", {config.linear_value_head_dim}),
      .out_proj = taker.Take(prefix + "out_proj.weight", {h, values})};
}

AttentionTensors TakeAttention(Taker& taker, const std::string& prefix,
                               const ModelConfig& config) {
  const int64_t h = config.hidden_size;
  const int64_t query = config.query_dim();
  const int64_t kv = config.kv_dim();
  return {.q_proj = taker.Take(prefix + "q_proj.weight", {2 * query, h}),
          .k_proj = taker.Take(prefix + "k_proj.weight", {kv, h}),
          .v_proj = taker.Take(prefix + "v_proj.weight", {kv, h}),
          .o_proj = taker.Take(prefix + "o_proj.weight", {h, query}),
          .q_norm = taker.Take(prefix + "q_norm.weight", {config.head_dim}),
          .k_norm = taker.Take(prefix + "k_norm.weight", {config.head_dim})};
}

FfnTensors TakeFfn(Taker& taker, const std::string& prefix, int64_t width,
                   int64_t hidden_size) {
  return {
      .gate_proj =
          taker.Take(prefix + "gate_proj.weight", {width, hidden_size}),
      .up_proj = taker.Take(prefix + "up_proj.weight", {width, hidden_size}),
      .down_proj =
          taker.Take(prefix + "down_proj.weight", {hidden_size, width})};
}

// Accepts both layouts: gate_up_proj [E, 2 m, H] and down_proj [E, H, m], or
// one FfnTensors per expert.
std::vector<FfnTensors> TakeExperts(Taker& taker, const std::string& prefix,
                                    const ModelConfig& config) {
  const int64_t h = config.hidden_size;
  const int64_t m = config.moe->intermediate_size;
  const int64_t num_experts = config.moe->num_experts;
  std::vector<FfnTensors> experts;
  const std::string gate_up_name = prefix + "gate_up_proj";
  if (!taker.Has(gate_up_name)) {
    for (int64_t e = 0; e < num_experts && taker.status().ok(); ++e) {
      experts.push_back(TakeFfn(taker, absl::StrCat(prefix, e, "."), m, h));
    }
    return experts;
  }
  const TensorView gate_up = taker.Take(gate_up_name, {num_experts, 2 * m, h});
  const TensorView down = taker.Take(prefix + "down_proj", {num_experts, h, m});
  for (int64_t e = 0; e < num_experts && taker.status().ok(); ++e) {
    const TensorView both = Entry(gate_up, e);
    experts.push_back({.gate_proj = Rows(both, 0, m),
                       .up_proj = Rows(both, m, 2 * m),
                       .down_proj = Entry(down, e)});
  }
  return experts;
}

MoeTensors TakeMoe(Taker& taker, const std::string& prefix,
                   const ModelConfig& config) {
  const int64_t h = config.hidden_size;
  return {.router =
              taker.Take(prefix + "gate.weight", {config.moe->num_experts, h}),
          .experts = TakeExperts(taker, prefix + "experts.", config),
          .shared_expert = TakeFfn(taker, prefix + "shared_expert.",
                                   config.moe->shared_intermediate_size, h),
          .shared_expert_gate =
              taker.Take(prefix + "shared_expert_gate.weight", {1, h})};
}

LayerTensors TakeLayer(Taker& taker, const std::string& prefix, LayerKind kind,
                       const ModelConfig& config) {
  const int64_t h = config.hidden_size;
  LayerTensors layer;
  layer.input_layernorm = taker.Take(prefix + "input_layernorm.weight", {h});
  layer.post_attention_layernorm =
      taker.Take(prefix + "post_attention_layernorm.weight", {h});
  if (kind == LayerKind::kLinearAttention) {
    layer.mixer = TakeGdn(taker, prefix + "linear_attn.", config);
  } else {
    layer.mixer = TakeAttention(taker, prefix + "self_attn.", config);
  }
  if (config.moe) {
    layer.ffn = TakeMoe(taker, prefix + "mlp.", config);
  } else {
    layer.ffn = TakeFfn(taker, prefix + "mlp.", config.intermediate_size, h);
  }
  return layer;
}

std::optional<TensorView> TakeHead(Taker& taker, const ModelConfig& config) {
  constexpr char kName[] = "lm_head.weight";
  const Shape shape = {config.vocab_size, config.hidden_size};
  if (taker.Has(kName)) return taker.Take(kName, shape);
  if (!config.tie_word_embeddings) {
    taker.Fail(absl::StrCat(kName, ": missing, expected shape ",
                            ShapeString(shape),
                            ", or tie_word_embeddings in config.json"));
  }
  return std::nullopt;
}

// The tensors decide, not mtp_num_hidden_layers: some checkpoints set it to 0
// although they have the tensors, and others keep it although they lack them.
std::optional<DrafterTensors> TakeDrafter(Taker& taker,
                                          const ModelConfig& config) {
  if (!taker.HasPrefix(kDrafterPrefix)) return std::nullopt;
  const int64_t h = config.hidden_size;
  return DrafterTensors{
      .fc = taker.Take("mtp.fc.weight", {h, 2 * h}),
      .pre_fc_norm_embedding =
          taker.Take("mtp.pre_fc_norm_embedding.weight", {h}),
      .pre_fc_norm_hidden = taker.Take("mtp.pre_fc_norm_hidden.weight", {h}),
      .layer =
          TakeLayer(taker, "mtp.layers.0.", LayerKind::kFullAttention, config),
      .norm = taker.Take("mtp.norm.weight", {h})};
}

}  // namespace

absl::StatusOr<CheckpointTensors> ResolveTensors(const TensorMap& tensors,
                                                 const ModelConfig& config) {
  Taker taker(tensors);
  const std::string prefix = taker.HasPrefix("model.language_model.")
                                 ? "model.language_model."
                                 : "model.";
  CheckpointTensors result;
  result.embedding = taker.Take(prefix + "embed_tokens.weight",
                                {config.vocab_size, config.hidden_size});
  result.head = TakeHead(taker, config);
  result.final_norm = taker.Take(prefix + "norm.weight", {config.hidden_size});
  for (int i = 0; i < config.num_layers() && taker.status().ok(); ++i) {
    result.layers.push_back(
        TakeLayer(taker, absl::StrCat(prefix, "layers.", i, "."),
                  config.layer_kinds[static_cast<size_t>(i)], config));
  }
  result.drafter = TakeDrafter(taker, config);
  taker.CheckAllTaken();
  BOLE_RETURN_IF_ERROR(taker.status());
  return result;
}

}  // namespace bole
