#include "worker_service/model/hybrid_model.h"

#include <algorithm>
#include <variant>

#include "common/status_macros.h"
#include "worker_service/model/layers.h"

namespace bole {
namespace {

GdnFactors AllocateFactors(const ModelConfig& config,
                           const HybridModel::Capacity& capacity,
                           DeviceArrays& arrays) {
  const GdnShape shape = GdnShapeOf(config);
  // A forest keeps every layer's rows until its commit; prefill chunks only
  // one layer's.
  const int64_t rows =
      std::max<int64_t>(static_cast<int64_t>(config.num_linear_layers()) *
                            capacity.max_forest_rows,
                        capacity.max_prefill_rows);
  return {
      .raw = arrays.Activations(rows * shape.conv_width(), "factors: raw"),
      .k = arrays.Activations(rows * shape.key_width(), "factors: k"),
      .v = arrays.Activations(rows * shape.value_width(), "factors: v"),
      .k_scale =
          arrays.Array<float>(rows * shape.key_heads, "factors: k scale"),
      .beta = arrays.Array<float>(rows * shape.value_heads, "factors: beta"),
      .log_decay =
          arrays.Array<float>(rows * shape.value_heads, "factors: log decay"),
      .layer_rows = capacity.max_forest_rows};
}

}  // namespace

HybridModel::HybridModel(const ModelConfig& config, const Weights& weights,
                         Backend& backend, const SequenceMemory& memory,
                         const Scratch& scratch, const Capacity& capacity,
                         DeviceArrays& arrays)
    : config_(config),
      weights_(weights),
      backend_(backend),
      memory_(memory),
      scratch_(scratch),
      factors_(AllocateFactors(config, capacity, arrays)) {}

absl::Status HybridModel::Forward(const ForwardInput& input,
                                  Activation* hidden) {
  GdnFactors factors = factors_;
  if (input.mode == ForwardMode::kPrefill) factors.layer_rows = 0;
  const LayerContext context{.backend = backend_,
                             .config = config_,
                             .batch = input.batch,
                             .mode = input.mode,
                             .solver = input.solver,
                             .all_rows = input.all_rows,
                             .states = memory_.states,
                             .factors = factors,
                             .pages = memory_.pages,
                             .inverse_frequency = weights_.inverse_frequency,
                             .scratch = scratch_};

  BOLE_RETURN_IF_ERROR(backend_.Embed({.rows = input.batch.rows,
                                       .token = input.token,
                                       .table = weights_.embedding,
                                       .out = scratch_.residual}));
  int linear_layer = 0;
  int attention_layer = 0;
  for (const LayerWeights& layer : weights_.layers) {
    const bool is_linear = std::holds_alternative<GdnWeights>(layer.mixer);
    int& memory_layer = is_linear ? linear_layer : attention_layer;
    BOLE_RETURN_IF_ERROR(RunLayer(layer, memory_layer++, context));
  }
  return backend_.RmsNorm({.rows = input.batch.rows,
                           .width = config_.hidden_size,
                           .epsilon = config_.rms_norm_eps,
                           .x = scratch_.residual,
                           .weight = weights_.norm,
                           .out = hidden,
                           .out_stride = config_.hidden_size,
                           .out_column = 0});
}

absl::Status HybridModel::Logits(RowCount rows, const Activation* hidden,
                                 float* logits) {
  return backend_.MatMul({.rows = rows,
                          .x = hidden,
                          .weight = weights_.head,
                          .out = nullptr,
                          .out_float = logits,
                          .accumulate = false});
}

absl::Status HybridModel::Commit(const RowBatch& batch, const RowPath& path) {
  const GdnCommitParams params{.batch = batch,
                               .path = path,
                               .shape = GdnShapeOf(config_),
                               .states = memory_.states,
                               .factors = factors_,
                               .first_layer = 0,
                               .num_layers = memory_.states.num_layers};
  BOLE_RETURN_IF_ERROR(backend_.GdnCommitStates(params));
  BOLE_RETURN_IF_ERROR(backend_.GdnCommitWindows(params));
  return backend_.CompactKv({.batch = batch,
                             .path = path,
                             .shape = AttentionShapeOf(config_),
                             .pages = memory_.pages,
                             .num_layers = config_.num_attention_layers()});
}

}  // namespace bole
