// The sizes and kinds of a model's parts, from its config.json.
#ifndef BOLE_WORKER_SERVICE_MODEL_MODEL_CONFIG_H_
#define BOLE_WORKER_SERVICE_MODEL_MODEL_CONFIG_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker_service/model/rope_config.h"

namespace bole {

enum class LayerKind { kLinearAttention, kFullAttention };

// A mixture of experts in every layer, the drafter's included.
struct MoeConfig {
  int num_experts = 0;               // E
  int experts_per_token = 0;         // At most E.
  int intermediate_size = 0;         // m, of a routed expert.
  int shared_intermediate_size = 0;  // ms, of the expert of every token.

  friend bool operator==(const MoeConfig&, const MoeConfig&) = default;
};

// The language model and the MTP drafter. A value. Every size is at least 1
// unless said, and small enough that the product of any two fits an int64 and
// every derived width an int.
struct ModelConfig {
  int hidden_size = 0;              // H
  int vocab_size = 0;               // V, rows of the embedding.
  int max_position_embeddings = 0;  // As in the file; see max_context().
  float rms_norm_eps = 0;
  std::vector<LayerKind> layer_kinds;  // [layers], any kind anywhere.

  // Full attention.
  int num_attention_heads = 0;  // Hq
  int num_key_value_heads = 0;  // Hkv, divides Hq.
  int head_dim = 0;             // hd
  RopeConfig rope;

  // Linear attention (Gated DeltaNet).
  int linear_num_key_heads = 0;    // Hk
  int linear_num_value_heads = 0;  // Hv, a multiple of Hk.
  int linear_key_head_dim = 0;     // dk
  int linear_value_head_dim = 0;   // dv
  int linear_conv_kernel = 0;      // Taps, the current token's included; 2..8.

  // Feed-forward: dense, unless `moe` is set.
  int intermediate_size = 0;  // I; 0 with `moe`.
  std::optional<MoeConfig> moe = std::nullopt;

  // Whether tie_word_embeddings is set in either of its places. A checkpoint
  // without an output head needs it; one with a head uses the head.
  bool tie_word_embeddings = false;
  // The stop tokens of the top level and of text_config: ascending, each once,
  // in [0, V).
  std::vector<int> eos_token_ids;
  // The file's value, 0 or 1; 1 if it has none. Whether there is a drafter
  // depends on the tensors (checkpoint_tensors.h).
  int num_mtp_layers = 0;

  int num_layers() const { return static_cast<int>(layer_kinds.size()); }
  int num_linear_layers() const;
  int num_attention_layers() const {
    return num_layers() - num_linear_layers();
  }
  int query_dim() const { return num_attention_heads * head_dim; }
  int kv_dim() const { return num_key_value_heads * head_dim; }
  int key_dim() const { return linear_num_key_heads * linear_key_head_dim; }
  int value_dim() const {
    return linear_num_value_heads * linear_value_head_dim;
  }
  // C: the channels of the convolution, q | k | v.
  int conv_dim() const { return 2 * key_dim() + value_dim(); }
  // Positions a request may use: YaRN reaches past max_position_embeddings.
  int max_context() const;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// From the text of a config.json: the wrapper with a `text_config`, or the flat
// file of a text-only save. Fields the text path does not need are ignored.
//
// INVALID_ARGUMENT, naming the field, its value and what is allowed: not JSON,
// an unknown architecture, a field that is missing, of a wrong type or out of
// range, heads that do not divide, or a feature that is not supported.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view text);

// From `directory`/config.json. Errors of MappedFile::Open and of
// ParseModelConfig, starting with the file's path.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& directory);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MODEL_CONFIG_H_
