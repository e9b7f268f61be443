#include "worker_service/model/hybrid_model.h"

#include <algorithm>

#include "common/status_macros.h"
#include "worker_service/model/layers.h"

namespace bole {
namespace {

GdnFactors AllocateFactors(const ModelConfig& config,
                           const HybridModel::Capacity& capacity,
                           DeviceArrays& arrays) {
  const GdnShape shape = GdnShapeOf(config);
  // A forest keeps the rows of every layer until its commit. Prefill chunks
  // keep those of one layer at a time, from the place where the forest's rows
  // of that layer begin. They may reach into the places of later layers, which
  // are written afterwards.
  const int64_t layer_rows = capacity.max_forest_rows;
  const int64_t rows =
      std::max(config.num_linear_layers() - 1, 0) * layer_rows +
      std::max(capacity.max_forest_rows, capacity.max_prefill_rows);
  float* node_states = nullptr;
  if (capacity.keeps_node_states) {
    const int64_t states = static_cast<int64_t>(config.num_linear_layers()) *
                           capacity.max_forest_rows;
    node_states = arrays.Array<float>(
        states * shape.value_width() * shape.key_dim, "states of nodes");
  }
  return {
      .raw = arrays.Activations(rows * shape.conv_width(), "factors: raw"),
      .k = arrays.Activations(rows * shape.key_width(), "factors: k"),
      .v = arrays.Activations(rows * shape.value_width(), "factors: v"),
      .k_scale =
          arrays.Array<float>(rows * shape.key_heads, "factors: k scale"),
      .beta = arrays.Array<float>(rows * shape.value_heads, "factors: beta"),
      .log_decay =
          arrays.Array<float>(rows * shape.value_heads, "factors: log decay"),
      .layer_rows = capacity.max_forest_rows,
      .node_states = node_states};
}

}  // namespace

HybridModel::HybridModel(const ModelParts& parts, const Capacity& capacity,
                         DeviceArrays& arrays)
    : parts_(parts),
      factor_bytes_(arrays.total_bytes()),
      factors_(AllocateFactors(parts.config, capacity, arrays)) {
  factor_bytes_ = arrays.total_bytes() - factor_bytes_;
}

absl::Status HybridModel::Forward(const ForwardPart& part, Activation* hidden) {
  return Forward({&part, 1}, part.batch.rows, hidden);
}

absl::Status HybridModel::Forward(std::span<const ForwardPart> parts,
                                  RowCount rows, Activation* hidden) {
  OperatorSet& operators = parts_.operators;
  const int64_t width = parts_.config.hidden_size;
  const LayerContext context{
      .operators = operators,
      .config = parts_.config,
      .rows = rows,
      .parts = parts,
      .states = parts_.memory.states,
      .factors = factors_,
      .pages = parts_.memory.pages,
      .inverse_frequency = parts_.weights.inverse_frequency,
      .scratch = parts_.scratch};

  for (const ForwardPart& part : parts) {
    BOLE_RETURN_IF_ERROR(operators.Embed(
        {.rows = part.batch.rows,
         .token = part.token,
         .table = parts_.weights.embedding,
         .out = ElementAt(parts_.scratch.residual, part.first_row * width,
                          parts_.scratch.type)}));
  }
  return RunLayers(parts_.weights.layers, {.linear = 0, .attention = 0},
                   {.weight = parts_.weights.norm, .out = hidden}, context);
}

Head HybridModel::head() const {
  return {parts_.weights.head, parts_.weights.head_rows, /*token_of=*/nullptr};
}

absl::Status HybridModel::Logits(RowCount rows, const Activation* hidden,
                                 float* logits) {
  return ComputeLogits(head(), rows, hidden, logits, parts_.operators);
}

absl::Status HybridModel::Commit(const RowBatch& batch, const RowPath& path) {
  return parts_.operators.CommitPath(
      {.batch = batch,
       .path = path,
       .shape = GdnShapeOf(parts_.config),
       .states = parts_.memory.states,
       .factors = factors_,
       .first_layer = 0,
       .num_layers = parts_.memory.states.num_layers},
      {.batch = batch,
       .path = path,
       .shape = AttentionShapeOf(parts_.config),
       .pages = parts_.memory.pages,
       .num_layers = parts_.config.num_attention_layers()});
}

}  // namespace bole
