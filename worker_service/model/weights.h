// A model's weights in a device's memory, in the form that the operators read.
#ifndef BOLE_WORKER_SERVICE_MODEL_WEIGHTS_H_
#define BOLE_WORKER_SERVICE_MODEL_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/weight_store.h"
#include "worker_service/model/checkpoint_tensors.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/model_shard.h"

namespace bole {

// Matrices that multiply the same input are stacked by rows into one matrix, so
// that a layer needs few products. Zero-centred norm weights are stored with 1
// added, in float32. doc/glossary.md names the dimensions; heads and widths are
// those that the rank has (ModelShard::config).

struct GdnWeights {
  const WeightMatrix* projection;  // [C + Vd + 2 Hv, H]: qkv | z | b | a.
  const float* conv;               // [C, taps]
  const float* negative_exp_a;     // [Hv] -exp(A_log)
  const float* dt_bias;            // [Hv]
  const float* norm;               // [dv], plain.
  const WeightMatrix* output;      // [H, Vd]
};

struct AttentionWeights {
  const WeightMatrix* projection;  // [2 Hq hd + 2 Hkv hd, H]: q, gate | k | v.
  const float* q_norm;             // [hd]
  const float* k_norm;             // [hd]
  const WeightMatrix* output;      // [H, Hq hd]
};

struct DenseFfnWeights {
  const WeightMatrix* gate_up;  // [2 I, H]
  const WeightMatrix* down;     // [H, I]
};

struct MoeFfnWeights {
  const WeightMatrix* router;                // [E, H]
  std::vector<const WeightMatrix*> gate_up;  // E of [2 m, H]
  std::vector<const WeightMatrix*> down;     // E of [H, m]
  const WeightMatrix* shared_gate;           // [1, H]
  const WeightMatrix* shared_gate_up;        // [2 ms, H]
  const WeightMatrix* shared_down;           // [H, ms]
};

struct LayerWeights {
  const float* input_norm;           // [H]
  const float* post_attention_norm;  // [H]
  std::variant<GdnWeights, AttentionWeights> mixer;
  std::variant<DenseFfnWeights, MoeFfnWeights> ffn;
};

struct DrafterWeights {
  const float* embedding_norm;     // [H]
  const float* hidden_norm;        // [H]
  const WeightMatrix* projection;  // [H, 2 H]: embedding | hidden.
  LayerWeights layer;              // Full attention.
  const float* norm;               // [H]
  // A head with some rows of the target's, or null if the drafter uses the
  // target's. Each rank has those of the rows that are in its part of the
  // target's head.
  const WeightMatrix* head = nullptr;   // [L, H], or the rank's rows of it.
  std::vector<int> head_rows = {};      // How many each rank has; L in all.
  const int32_t* head_token = nullptr;  // [L] ids of all ranks, ascending.
};

struct Weights {
  explicit Weights(Device& device) : arrays(device) {}

  const WeightMatrix* embedding = nullptr;  // [V, H]
  // [V, H], or the rank's rows of it (ModelShard::head); the embedding when the
  // model is tied and on one rank.
  const WeightMatrix* head = nullptr;
  std::vector<int> head_rows;   // How many each rank has; V in all.
  const float* norm = nullptr;  // [H]
  const float* inverse_frequency = nullptr;  // [rotary_dim / 2]
  std::vector<LayerWeights> layers;
  std::optional<DrafterWeights> drafter;
  size_t matrix_bytes = 0;  // Bytes of all matrices.
  DeviceArrays arrays;      // Owns the vectors; the store owns the matrices.
};

// How much of the rank's matrices the store has, in bytes as they are stored.
struct LoadProgress {
  int64_t done_bytes;
  int64_t all_bytes;
};
using OnLoadProgress = std::function<void(const LoadProgress&)>;

// Converts, folds and packs the rank's part of every tensor. `on_progress`, if
// there is one, is called before the first matrix, after each, and once more
// with all bytes when everything is in the device's memory.
// Errors: RESOURCE_EXHAUSTED when there is not enough memory; INTERNAL when
// copies to the device failed.
// REQUIRES: `tensors` were resolved with shard.whole.
// COST: reads the part once, and no other bytes of tensors that are cut; waits
// for the device once, at the end.
absl::StatusOr<Weights> LoadWeights(
    const CheckpointTensors& tensors, const ModelShard& shard,
    WeightStore& store, Device& device,
    const OnLoadProgress& on_progress = nullptr);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_WEIGHTS_H_
