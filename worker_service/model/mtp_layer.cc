#include "worker_service/model/mtp_layer.h"

#include "common/status_macros.h"
#include "worker_service/model/layers.h"

namespace bole {

MtpLayer::MtpLayer(const ModelParts& parts, int max_rows, DeviceArrays& arrays)
    : parts_(parts),
      rows_(arrays.Activations(
          static_cast<int64_t>(max_rows) * parts.config.hidden_size,
          "drafter: rows")),
      combined_(arrays.Activations(
          static_cast<int64_t>(max_rows) * 2 * parts.config.hidden_size,
          "drafter: combined rows")) {}

absl::Status MtpLayer::Combine(const Input& input) {
  const int width = parts_.config.hidden_size;
  RmsNormParams norm{.rows = input.batch.rows,
                     .width = width,
                     .epsilon = parts_.config.rms_norm_eps,
                     .x = rows_,
                     .weight = parts_.weights.drafter->embedding_norm,
                     .out = combined_,
                     .out_stride = 2 * width,
                     .out_column = 0};
  BOLE_RETURN_IF_ERROR(parts_.backend.Embed({.rows = input.batch.rows,
                                             .token = input.token,
                                             .table = parts_.weights.embedding,
                                             .out = rows_}));
  BOLE_RETURN_IF_ERROR(parts_.backend.RmsNorm(norm));

  BOLE_RETURN_IF_ERROR(parts_.backend.GatherRows({.rows = input.batch.rows,
                                                  .width = width,
                                                  .index = input.hidden_row,
                                                  .x = input.hidden,
                                                  .out = rows_}));
  norm.weight = parts_.weights.drafter->hidden_norm;
  norm.out_column = width;
  return parts_.backend.RmsNorm(norm);
}

absl::Status MtpLayer::Forward(const Input& input, Activation* out) {
  BOLE_RETURN_IF_ERROR(Combine(input));
  BOLE_RETURN_IF_ERROR(
      parts_.backend.MatMul({.rows = input.batch.rows,
                             .x = combined_,
                             .weight = parts_.weights.drafter->projection,
                             .out = parts_.scratch.residual,
                             .out_float = nullptr,
                             .accumulate = false}));
  const LayerContext context{
      .backend = parts_.backend,
      .config = parts_.config,
      .batch = input.batch,
      .mode = ForwardMode::kVerify,
      .all_rows = {},
      .states = {},
      .factors = {},
      .pages = parts_.memory.pages,
      .inverse_frequency = parts_.weights.inverse_frequency,
      .scratch = parts_.scratch};
  BOLE_RETURN_IF_ERROR(RunLayer(parts_.weights.drafter->layer,
                                parts_.config.num_attention_layers(), context));
  return parts_.backend.RmsNorm({.rows = input.batch.rows,
                                 .width = parts_.config.hidden_size,
                                 .epsilon = parts_.config.rms_norm_eps,
                                 .x = parts_.scratch.residual,
                                 .weight = parts_.weights.drafter->norm,
                                 .out = out,
                                 .out_stride = parts_.config.hidden_size,
                                 .out_column = 0});
}

MtpLayer::Head MtpLayer::head() const {
  const DrafterWeights& drafter = *parts_.weights.drafter;
  if (drafter.head == nullptr) return {parts_.weights.head, nullptr};
  return {drafter.head, drafter.head_token};
}

absl::Status MtpLayer::Logits(RowCount rows, const Activation* hidden,
                              float* logits) {
  return parts_.backend.MatMul({.rows = rows,
                                .x = hidden,
                                .weight = head().matrix,
                                .out = nullptr,
                                .out_float = logits,
                                .accumulate = false});
}

}  // namespace bole
