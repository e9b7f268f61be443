#include "worker_service/model/mtp_layer.h"

#include <span>

#include "common/status_macros.h"
#include "worker_service/model/layers.h"

namespace bole {

MtpLayer::MtpLayer(const ModelParts& parts, int max_rows, DeviceArrays& arrays)
    : parts_(parts),
      combined_(arrays.Activations(
          static_cast<int64_t>(max_rows) * 2 * parts.config.hidden_size,
          "drafter: combined rows")) {}

absl::Status MtpLayer::Forward(const Input& input, Activation* out) {
  const DrafterWeights& weights = *parts_.weights.drafter;
  BOLE_RETURN_IF_ERROR(
      parts_.operators.DraftInputs({.rows = input.batch.rows,
                                    .width = parts_.config.hidden_size,
                                    .epsilon = parts_.config.rms_norm_eps,
                                    .token = input.token,
                                    .table = parts_.weights.embedding,
                                    .embedding_norm = weights.embedding_norm,
                                    .hidden_row = input.hidden_row,
                                    .hidden = input.hidden,
                                    .hidden_norm = weights.hidden_norm,
                                    .out = combined_}));
  BOLE_RETURN_IF_ERROR(parts_.operators.MatMul({.rows = input.batch.rows,
                                                .x = combined_,
                                                .weight = weights.projection,
                                                .out = parts_.scratch.residual,
                                                .out_float = nullptr,
                                                .accumulate = false}));
  const ForwardPart part{
      .batch = input.batch, .token = input.token, .mode = ForwardMode::kVerify};
  const LayerContext context{
      .operators = parts_.operators,
      .config = parts_.config,
      .rows = input.batch.rows,
      .parts = {&part, 1},
      .states = {},
      .factors = {},
      .pages = parts_.memory.pages,
      .first_key = kFirstDraftKey,
      .inverse_frequency = parts_.weights.inverse_frequency,
      .scratch = parts_.scratch};
  return RunLayers(
      std::span(&weights.layer, 1),
      {.linear = 0, .attention = parts_.config.num_attention_layers()},
      {.weight = weights.norm, .out = out}, context);
}

Head MtpLayer::head() const {
  const Weights& weights = parts_.weights;
  const DrafterWeights& drafter = *weights.drafter;
  if (drafter.head == nullptr) {
    return {weights.head, weights.head_rows, /*token_of=*/nullptr};
  }
  return {drafter.head, drafter.head_rows, drafter.head_token};
}

absl::Status MtpLayer::Logits(RowCount rows, const Activation* hidden,
                              float* logits) {
  return ComputeLogits(head(), rows, hidden, logits, parts_.operators);
}

}  // namespace bole
