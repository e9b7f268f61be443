#include "worker_service/model/weights.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "common/status_macros.h"
#include "kernels/matrix_source.h"
#include "worker_service/model/weight_slice.h"

namespace bole {
namespace {

// Passes tensors to the store one at a time. The first error sticks, so that
// the code of a layer reads as the list of its weights.
class Loader {
 public:
  // Fills `weights`, and calls `on_progress`, if there is one, after each
  // matrix but the last. `all_bytes` is what source_bytes() will be after
  // Everything().
  Loader(const ModelShard& shard, WeightStore& store, Weights& weights,
         const OnLoadProgress& on_progress, int64_t all_bytes)
      : shard_(shard),
        store_(store),
        weights_(weights),
        on_progress_(&on_progress),
        all_bytes_(all_bytes) {}
  // Only counts the bytes that the other kind of loader would read: no data is
  // touched, and every matrix and vector is null. REQUIRES: weights.arrays is
  // measuring.
  Loader(const ModelShard& shard, WeightStore& store, Weights& weights)
      : shard_(shard), store_(store), weights_(weights) {}

  void Everything(const CheckpointTensors& t) {
    weights_.embedding = Matrix(t.embedding);
    weights_.head = Head(t, weights_.embedding);
    weights_.norm = ZeroCentred(t.final_norm);
    for (const LayerTensors& layer : t.layers) {
      weights_.layers.push_back(Layer(layer));
    }
    if (t.drafter) weights_.drafter = Drafter(*t.drafter);
  }

  absl::Status status() const {
    return status_.ok() ? weights_.arrays.status() : status_;
  }
  // The bytes of the matrices so far, in their stored form.
  int64_t source_bytes() const { return source_bytes_; }

 private:
  const float* Vector(const WeightSlice& slice) {
    return weights_.arrays.Copy(Floats(slice), "weights");
  }
  const float* Vector(const TensorView& tensor) {
    return Vector({tensor, WholeOf(tensor)});
  }
  // 1 + w.
  const float* ZeroCentred(const TensorView& tensor) {
    std::vector<float> values = Floats({tensor, WholeOf(tensor)});
    for (float& value : values) value += 1;
    return weights_.arrays.Copy(values, "weights");
  }
  // -exp(A_log)
  const float* NegativeExp(const WeightSlice& slice) {
    std::vector<float> values = Floats(slice);
    for (float& value : values) value = -std::exp(value);
    return weights_.arrays.Copy(values, "weights");
  }

  // A matrix of the slices' rows, stacked.
  const WeightMatrix* Matrix(std::initializer_list<WeightSlice> slices) {
    std::vector<MatrixBlock> blocks;
    int columns = 0;
    for (const WeightSlice& slice : slices) {
      if (status_.ok()) status_ = AppendBlocks(slice, blocks);
      columns = slice.cut.columns.count;
    }
    if (!status_.ok()) return nullptr;
    const MatrixSource source{.columns = columns, .blocks = blocks};
    source_bytes_ += source.bytes();
    if (is_counting()) return nullptr;
    absl::StatusOr<const WeightMatrix*> matrix = store_.LoadMatrix(source);
    if (!matrix.ok()) {
      status_ = matrix.status();
      return nullptr;
    }
    weights_.matrix_bytes += store_.MatrixBytes(**matrix);
    if (*on_progress_ && source_bytes_ < all_bytes_) {
      (*on_progress_)({.done_bytes = source_bytes_, .all_bytes = all_bytes_});
    }
    return *matrix;
  }
  const WeightMatrix* Matrix(const TensorView& tensor) {
    return Matrix({{tensor, WholeOf(tensor)}});
  }

  GdnWeights Mixer(const GdnTensors& t) {
    const GdnCuts& cut = shard_.gdn;
    return {.projection = Matrix({{t.in_proj_qkv, cut.in_proj_qkv},
                                  {t.in_proj_z, cut.in_proj_z},
                                  {t.in_proj_b, cut.in_proj_b},
                                  {t.in_proj_a, cut.in_proj_a}}),
            .conv = Vector({t.conv1d, cut.conv1d}),
            .negative_exp_a = NegativeExp({t.a_log, cut.a_log}),
            .dt_bias = Vector({t.dt_bias, cut.dt_bias}),
            .norm = Vector(t.norm),
            .output = Matrix({{t.out_proj, cut.out_proj}})};
  }

  AttentionWeights Mixer(const AttentionTensors& t) {
    const AttentionCuts& cut = shard_.attention;
    return {.projection = Matrix({{t.q_proj, cut.q_proj},
                                  {t.k_proj, cut.k_proj},
                                  {t.v_proj, cut.v_proj}}),
            .q_norm = ZeroCentred(t.q_norm),
            .k_norm = ZeroCentred(t.k_norm),
            .output = Matrix({{t.o_proj, cut.o_proj}})};
  }

  DenseFfnWeights Ffn(const FfnTensors& t, const FfnCuts& cut) {
    return {.gate_up = Matrix(
                {{t.gate_proj, cut.gate_proj}, {t.up_proj, cut.up_proj}}),
            .down = Matrix({{t.down_proj, cut.down_proj}})};
  }
  DenseFfnWeights Ffn(const FfnTensors& t) { return Ffn(t, shard_.ffn); }

  MoeFfnWeights Ffn(const MoeTensors& t) {
    const DenseFfnWeights shared = Ffn(t.shared_expert, shard_.shared_expert);
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

  // The head. That of a tied model is the embedding on a single rank, and a
  // copy of the rank's rows of it on several.
  const WeightMatrix* Head(const CheckpointTensors& t,
                           const WeightMatrix* embedding) {
    if (!t.head && shard_.rank.count == 1) return embedding;
    return Matrix({{t.head.value_or(t.embedding), shard_.head}});
  }

  bool is_counting() const { return on_progress_ == nullptr; }

  std::vector<float> Floats(const WeightSlice& slice) {
    if (is_counting()) return {};
    std::vector<float> values(static_cast<size_t>(slice.num_elements()));
    if (status_.ok()) status_ = ConvertToFloat(slice, values);
    return values;
  }

  const ModelShard& shard_;
  WeightStore& store_;
  Weights& weights_;
  const OnLoadProgress* on_progress_ = nullptr;
  int64_t all_bytes_ = 0;
  int64_t source_bytes_ = 0;
  absl::Status status_;
};

int64_t BytesToRead(const CheckpointTensors& tensors, const ModelShard& shard,
                    WeightStore& store, Device& device) {
  Weights counted(device);
  counted.arrays = DeviceArrays::Measuring(device);
  Loader loader(shard, store, counted);
  loader.Everything(tensors);
  return loader.source_bytes();
}

}  // namespace

absl::StatusOr<Weights> LoadWeights(const CheckpointTensors& tensors,
                                    const ModelShard& shard, WeightStore& store,
                                    Device& device,
                                    const OnLoadProgress& on_progress) {
  const int64_t all_bytes = BytesToRead(tensors, shard, store, device);
  if (on_progress) on_progress({.done_bytes = 0, .all_bytes = all_bytes});
  Weights weights(device);
  Loader loader(shard, store, weights, on_progress, all_bytes);
  loader.Everything(tensors);
  weights.head_rows = HeadRows(shard);
  weights.inverse_frequency = weights.arrays.Copy(
      InverseFrequencies(shard.config.rope), "rotary frequencies");
  BOLE_RETURN_IF_ERROR(loader.status());
  // Copies may still be queued; their errors are errors of loading.
  BOLE_RETURN_IF_ERROR(device.SetMark(0));
  BOLE_RETURN_IF_ERROR(device.AwaitMark(0));
  if (on_progress) {
    on_progress({.done_bytes = all_bytes, .all_bytes = all_bytes});
  }
  return weights;
}

}  // namespace bole
