#include "worker_service/model/weights.h"

#include <cmath>
#include <initializer_list>
#include <span>
#include <utility>

#include "common/status_macros.h"

namespace bole {
namespace {

// Converts tensors one at a time and hands them to the backend. The first
// error sticks, so that a layer reads as the list of its weights.
class Loader {
 public:
  Loader(Backend& backend, DeviceArrays& arrays)
      : backend_(backend), arrays_(arrays) {}

  absl::Status status() const {
    return status_.ok() ? arrays_.status() : status_;
  }

  size_t matrix_bytes() const { return matrix_bytes_; }

  const float* Vector(const TensorView& tensor) {
    return arrays_.Copy(Floats(tensor), "weights");
  }
  // 1 + w.
  const float* ZeroCentred(const TensorView& tensor) {
    std::vector<float> values = Floats(tensor);
    for (float& value : values) value += 1;
    return arrays_.Copy(values, "weights");
  }
  // -exp(A_log)
  const float* NegativeExp(const TensorView& tensor) {
    std::vector<float> values = Floats(tensor);
    for (float& value : values) value = -std::exp(value);
    return arrays_.Copy(values, "weights");
  }

  // The tensors' rows one below the other.
  const WeightMatrix* Matrix(std::initializer_list<const TensorView*> tensors) {
    std::vector<std::vector<float>> values;
    std::vector<std::span<const float>> blocks;
    int rows = 0;
    int columns = 0;
    for (const TensorView* tensor : tensors) {
      values.push_back(Floats(*tensor));
      rows += static_cast<int>(tensor->shape[0]);
      columns = static_cast<int>(tensor->shape[1]);
    }
    blocks.assign(values.begin(), values.end());
    if (!status_.ok()) return nullptr;
    absl::StatusOr<const WeightMatrix*> matrix = backend_.LoadMatrix(
        {.rows = rows, .columns = columns, .blocks = blocks});
    if (!matrix.ok()) {
      status_ = matrix.status();
      return nullptr;
    }
    matrix_bytes_ += backend_.MatrixBytes(**matrix);
    return *matrix;
  }
  const WeightMatrix* Matrix(const TensorView& tensor) {
    return Matrix({&tensor});
  }

  GdnWeights Mixer(const GdnTensors& t) {
    return {.projection = Matrix(
                {&t.in_proj_qkv, &t.in_proj_z, &t.in_proj_b, &t.in_proj_a}),
            .conv = Vector(t.conv1d),
            .negative_exp_a = NegativeExp(t.a_log),
            .dt_bias = Vector(t.dt_bias),
            .norm = Vector(t.norm),
            .output = Matrix(t.out_proj)};
  }

  AttentionWeights Mixer(const AttentionTensors& t) {
    return {.projection = Matrix({&t.q_proj, &t.k_proj, &t.v_proj}),
            .q_norm = ZeroCentred(t.q_norm),
            .k_norm = ZeroCentred(t.k_norm),
            .output = Matrix(t.o_proj)};
  }

  DenseFfnWeights Ffn(const FfnTensors& t) {
    return {.gate_up = Matrix({&t.gate_proj, &t.up_proj}),
            .down = Matrix(t.down_proj)};
  }

  MoeFfnWeights Ffn(const MoeTensors& t) {
    const DenseFfnWeights shared = Ffn(t.shared_expert);
    MoeFfnWeights weights{.router = Matrix(t.router),
                          .gate_up = {},
                          .down = {},
                          .shared_gate = Matrix(t.shared_expert_gate),
                          .shared_gate_up = shared.gate_up,
                          .shared_down = shared.down};
    for (const FfnTensors& expert : t.experts) {
      const DenseFfnWeights ffn = Ffn(expert);
      weights.gate_up.push_back(ffn.gate_up);
      weights.down.push_back(ffn.down);
    }
    return weights;
  }

  LayerWeights Layer(const LayerTensors& t) {
    LayerWeights weights{
        .input_norm = ZeroCentred(t.input_layernorm),
        .post_attention_norm = ZeroCentred(t.post_attention_layernorm),
        .mixer = {},
        .ffn = {}};
    std::visit([&](const auto& mixer) { weights.mixer = Mixer(mixer); },
               t.mixer);
    std::visit([&](const auto& ffn) { weights.ffn = Ffn(ffn); }, t.ffn);
    return weights;
  }

  DrafterWeights Drafter(const DrafterTensors& t) {
    return {.embedding_norm = ZeroCentred(t.pre_fc_norm_embedding),
            .hidden_norm = ZeroCentred(t.pre_fc_norm_hidden),
            .projection = Matrix(t.fc),
            .layer = Layer(t.layer),
            .norm = ZeroCentred(t.norm)};
  }

 private:
  std::vector<float> Floats(const TensorView& tensor) {
    std::vector<float> values(tensor.num_elements());
    if (status_.ok()) status_ = ConvertToFloat(tensor, values);
    return values;
  }

  Backend& backend_;
  DeviceArrays& arrays_;
  absl::Status status_;
  size_t matrix_bytes_ = 0;
};

}  // namespace

absl::StatusOr<Weights> LoadWeights(const CheckpointTensors& tensors,
                                    const ModelConfig& config,
                                    Backend& backend) {
  Weights weights(backend);
  Loader loader(backend, weights.arrays);
  weights.embedding = loader.Matrix(tensors.embedding);
  weights.head =
      tensors.head ? loader.Matrix(*tensors.head) : weights.embedding;
  weights.norm = loader.ZeroCentred(tensors.final_norm);
  weights.inverse_frequency = weights.arrays.Copy(
      InverseFrequencies(config.rope), "rotary frequencies");
  for (const LayerTensors& layer : tensors.layers) {
    weights.layers.push_back(loader.Layer(layer));
  }
  if (tensors.drafter) weights.drafter = loader.Drafter(*tensors.drafter);
  BOLE_RETURN_IF_ERROR(loader.status());
  weights.matrix_bytes = loader.matrix_bytes();
  return weights;
}

}  // namespace bole
