// Finds the tensors of a checkpoint by their role, and checks their shapes.
#ifndef BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_TENSORS_H_
#define BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_TENSORS_H_

#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/tensor_view.h"

namespace bole {

// Every view below has the shape of its comment, in the letters of ModelConfig,
// and is F32, BF16 or F16; one layer may mix them. Matrices are [out, in].
// "Zero-centred" is a norm whose weight is 1 + what is stored. The views point
// into the map they were taken from, so its files must stay open.

struct GdnTensors {
  TensorView in_proj_qkv;  // [C, H] rows: all q, all k, all v, head-major.
  TensorView in_proj_z;    // [Hv * dv, H] output gate.
  TensorView in_proj_b;    // [Hv, H] logits of beta.
  TensorView in_proj_a;    // [Hv, H] logits of the decay.
  TensorView conv1d;       // [C, 1, taps] the last tap is the current token's.
  TensorView a_log;        // [Hv]
  TensorView dt_bias;      // [Hv]
  TensorView norm;         // [dv], not zero-centred.
  TensorView out_proj;     // [H, Hv * dv]
};

struct AttentionTensors {
  TensorView q_proj;  // [Hq * 2 hd, H] per head: hd rows query, hd rows gate.
  TensorView k_proj;  // [Hkv * hd, H]
  TensorView v_proj;  // [Hkv * hd, H]
  TensorView o_proj;  // [H, Hq * hd]
  TensorView q_norm;  // [hd], zero-centred.
  TensorView k_norm;  // [hd], zero-centred.
};

// Width I: intermediate_size, or m or ms of MoeConfig.
struct FfnTensors {
  TensorView gate_proj;  // [I, H]
  TensorView up_proj;    // [I, H]
  TensorView down_proj;  // [H, I]
};

// Experts have this form whether the file stacks them or not.
struct MoeTensors {
  TensorView router;                // [E, H]
  std::vector<FfnTensors> experts;  // [E], width m.
  FfnTensors shared_expert;         // Width ms.
  TensorView shared_expert_gate;    // [1, H]
};

struct LayerTensors {
  TensorView input_layernorm;           // [H], zero-centred.
  TensorView post_attention_layernorm;  // [H], zero-centred.
  std::variant<GdnTensors, AttentionTensors> mixer;
  std::variant<FfnTensors, MoeTensors> ffn;
};

struct DrafterTensors {
  TensorView fc;                     // [H, 2 H] columns: embedding, hidden.
  TensorView pre_fc_norm_embedding;  // [H], zero-centred.
  TensorView pre_fc_norm_hidden;     // [H], zero-centred.
  LayerTensors layer;                // Its mixer is AttentionTensors.
  TensorView norm;                   // [H], zero-centred.
};

struct CheckpointTensors {
  TensorView embedding;              // [V, H]
  std::optional<TensorView> head;    // [V, H]; absent: the embedding.
  TensorView final_norm;             // [H], zero-centred.
  std::vector<LayerTensors> layers;  // In the order of config.layer_kinds.
  // Present if there are mtp.* tensors, whatever mtp_num_hidden_layers says.
  std::optional<DrafterTensors> drafter;
};

// Takes the language model and the drafter out of a checkpoint's tensors.
// Detects whether names start with "model.language_model." or "model.", and for
// each layer whether its experts are stacked. Skips the vision tower. Does not
// read the data.
//
// INVALID_ARGUMENT, naming the tensor, what was found and what is expected: one
// is missing, unknown, of another shape or element type; or there is no output
// head and the configuration does not tie it to the embedding.
absl::StatusOr<CheckpointTensors> ResolveTensors(const TensorMap& tensors,
                                                 const ModelConfig& config);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_TENSORS_H_
