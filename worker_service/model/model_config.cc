#include "worker_service/model/model_config.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker_service/model/json_fields.h"
#include "worker_service/model/mapped_file.h"

namespace bole {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr int kMaxPositions = 1 << 28;

constexpr IntRange kHiddenSize = {1, 1 << 17};
constexpr IntRange kIntermediateSize = {1, 1 << 20};
constexpr IntRange kVocabSize = {1, 1 << 24};
constexpr IntRange kNumLayers = {1, 1024};
constexpr IntRange kNumHeads = {1, 4096};
constexpr IntRange kHeadDim = {1, 1024};
constexpr IntRange kConvKernel = {2, 8};
constexpr IntRange kNumExperts = {0, 1 << 14};
constexpr IntRange kNumMtpLayers = {0, 1};

// Empty if absent.
std::string ModelType(JsonFields& fields) {
  return fields.OneOf("model_type", {"qwen3_5", "qwen3_5_moe", "qwen3_5_text",
                                     "qwen3_5_moe_text"});
}

// A flat file may lack model_type; then its architectures must be known.
void CheckModelType(JsonFields& root, JsonFields& text) {
  const std::string outer = ModelType(root);
  const std::string inner = ModelType(text);
  const std::vector<std::string> architectures = root.EachOneOf(
      "architectures",
      {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
       "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"});
  if (outer.empty() && inner.empty() && architectures.empty()) {
    root.Fail("model_type", "missing, and so is architectures");
  }
}

// Rejects variants whose arithmetic or tensors differ from what is implemented.
void CheckSupported(JsonFields& fields) {
  fields.OneOf("hidden_act", {"silu"});
  fields.OneOf("output_gate_type", {"swish", "silu"});
  fields.OnlyBool("attn_output_gate", true);
  fields.OnlyBool("attention_bias", false);
  fields.OnlyBool("mtp_use_dedicated_embeddings", false);
  fields.OnlyBool("norm_topk_prob", true);
  fields.OnlyAbsent("quantization_config",
                    "quantised checkpoints are not supported");
  fields.Int("decoder_sparse_step", {1, 1}, 1);
  if (!fields.IntOrInts("mlp_only_layers", {0, kNumLayers.max}).empty()) {
    fields.Fail("mlp_only_layers", "expected an empty list");
  }
}

std::vector<LayerKind> ReadLayerKinds(JsonFields& fields) {
  const auto num_layers =
      static_cast<size_t>(fields.Int("num_hidden_layers", kNumLayers));
  std::vector<LayerKind> kinds;
  if (!fields.Has("layer_types")) {
    const auto interval = static_cast<size_t>(
        fields.Int("full_attention_interval", {1, 1 << 20}, 4));
    for (size_t i = 0; i < num_layers; ++i) {
      kinds.push_back((i + 1) % interval == 0 ? LayerKind::kFullAttention
                                              : LayerKind::kLinearAttention);
    }
    return kinds;
  }
  for (const std::string& type : fields.EachOneOf(
           "layer_types", {"linear_attention", "full_attention"})) {
    kinds.push_back(type == "full_attention" ? LayerKind::kFullAttention
                                             : LayerKind::kLinearAttention);
  }
  if (kinds.size() != num_layers) {
    fields.Fail("layer_types", absl::StrCat("lists ", kinds.size(),
                                            " layers, expected ", num_layers));
  }
  return kinds;
}

// Records an error unless `divisor` divides the value of `key`.
void CheckDivides(JsonFields& fields, const char* key, int value,
                  const char* divisor_key, int divisor) {
  if (value % divisor == 0) return;
  fields.Fail(key, absl::StrCat(value, ", expected a multiple of ", divisor_key,
                                ", ", divisor));
}

void ReadAttention(JsonFields& fields, ModelConfig& config) {
  config.num_attention_heads = fields.Int("num_attention_heads", kNumHeads);
  config.num_key_value_heads = fields.Int("num_key_value_heads", kNumHeads);
  config.head_dim = fields.Int("head_dim", kHeadDim, 256);
  CheckDivides(fields, "num_attention_heads", config.num_attention_heads,
               "num_key_value_heads", config.num_key_value_heads);

  config.linear_num_key_heads =
      fields.Int("linear_num_key_heads", kNumHeads, 16);
  config.linear_num_value_heads =
      fields.Int("linear_num_value_heads", kNumHeads, 32);
  config.linear_key_head_dim = fields.Int("linear_key_head_dim", kHeadDim, 128);
  config.linear_value_head_dim =
      fields.Int("linear_value_head_dim", kHeadDim, 128);
  config.linear_conv_kernel =
      fields.Int("linear_conv_kernel_dim", kConvKernel, 4);
  CheckDivides(fields, "linear_num_value_heads", config.linear_num_value_heads,
               "linear_num_key_heads", config.linear_num_key_heads);
}

void ReadFeedForward(JsonFields& fields, ModelConfig& config) {
  const int num_experts = fields.Int("num_experts", kNumExperts, 0);
  if (num_experts == 0 && !fields.Has("intermediate_size")) {
    fields.Fail("intermediate_size", "missing, and num_experts is not set");
  }
  if (num_experts == 0) {
    config.intermediate_size =
        fields.Int("intermediate_size", kIntermediateSize);
    return;
  }
  config.moe = MoeConfig{
      .num_experts = num_experts,
      .experts_per_token = fields.Int("num_experts_per_tok", {1, num_experts}),
      .intermediate_size =
          fields.Int("moe_intermediate_size", kIntermediateSize),
      .shared_intermediate_size =
          fields.Int("shared_expert_intermediate_size", kIntermediateSize)};
}

// The stop tokens of both places, ascending, each once.
std::vector<int> ReadEosTokenIds(JsonFields& root, JsonFields& text,
                                 int vocab_size) {
  const IntRange range = {0, vocab_size - 1};
  std::vector<int> ids = text.IntOrInts("eos_token_id", range);
  const std::vector<int> outer = root.IntOrInts("eos_token_id", range);
  ids.insert(ids.end(), outer.begin(), outer.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// In a flat file, `root` and `text` have the same fields.
absl::StatusOr<ModelConfig> ReadConfig(JsonFields& root, JsonFields& text) {
  CheckModelType(root, text);
  CheckSupported(root);
  CheckSupported(text);
  ModelConfig config;
  config.hidden_size = text.Int("hidden_size", kHiddenSize);
  config.vocab_size = text.Int("vocab_size", kVocabSize);
  config.max_position_embeddings =
      text.Int("max_position_embeddings", {1, kMaxPositions});
  config.rms_norm_eps =
      static_cast<float>(text.Number("rms_norm_eps", {1e-12, 0.1}, 1e-6));
  config.layer_kinds = ReadLayerKinds(text);
  ReadAttention(text, config);
  ReadFeedForward(text, config);
  const bool root_ties = root.Bool("tie_word_embeddings", false);
  config.tie_word_embeddings =
      text.Bool("tie_word_embeddings", false) || root_ties;
  config.eos_token_ids = ReadEosTokenIds(root, text, config.vocab_size);
  config.num_mtp_layers = text.Int("mtp_num_hidden_layers", kNumMtpLayers, 1);
  BOLE_RETURN_IF_ERROR(root.status());
  BOLE_RETURN_IF_ERROR(text.status());
  return config;
}

}  // namespace

int ModelConfig::num_linear_layers() const {
  return static_cast<int>(std::count(layer_kinds.begin(), layer_kinds.end(),
                                     LayerKind::kLinearAttention));
}

int ModelConfig::max_context() const {
  if (!rope.yarn) return max_position_embeddings;
  const double stretched =
      rope.yarn->original_max_positions * rope.yarn->factor;
  return std::max(max_position_embeddings,
                  static_cast<int>(std::min<double>(stretched, kMaxPositions)));
}

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view text) {
  BOLE_ASSIGN_OR_RETURN(const json document, ParseJson(text, kMaxDepth));
  if (!document.is_object()) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  JsonFields root(document, "");
  const json* inner = root.Object("text_config");
  BOLE_RETURN_IF_ERROR(root.status());
  const json& language = inner != nullptr ? *inner : document;
  const std::string path = inner != nullptr ? "text_config" : "";
  JsonFields fields(language, path);
  BOLE_ASSIGN_OR_RETURN(ModelConfig config, ReadConfig(root, fields));
  BOLE_ASSIGN_OR_RETURN(config.rope,
                        ReadRopeConfig(language, path, config.head_dim));
  return config;
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  BOLE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<ModelConfig> config = ParseModelConfig(file.text());
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

}  // namespace bole
