#include "worker_service/model/mtp_layer.h"

#include "common/status_macros.h"
#include "worker_service/model/layers.h"

namespace bole {

MtpLayer::MtpLayer(const ModelConfig& config, const Weights& weights,
                   Backend& backend, const SequenceMemory& memory,
                   const Scratch& scratch, int max_rows, DeviceArrays& arrays)
    : config_(config),
      weights_(weights),
      drafter_(*weights.drafter),
      backend_(backend),
      memory_(memory),
      scratch_(scratch),
      rows_(arrays.Activations(
          static_cast<int64_t>(max_rows) * config.hidden_size,
          "drafter: rows")),
      combined_(arrays.Activations(
          static_cast<int64_t>(max_rows) * 2 * config.hidden_size,
          "drafter: combined rows")) {}

absl::Status MtpLayer::Combine(const Input& input) {
  const int width = config_.hidden_size;
  RmsNormParams norm{.rows = input.batch.rows,
                     .width = width,
                     .epsilon = config_.rms_norm_eps,
                     .x = rows_,
                     .weight = drafter_.embedding_norm,
                     .out = combined_,
                     .out_stride = 2 * width,
                     .out_column = 0};
  BOLE_RETURN_IF_ERROR(backend_.Embed({.rows = input.batch.rows,
                                       .token = input.token,
                                       .table = weights_.embedding,
                                       .out = rows_}));
  BOLE_RETURN_IF_ERROR(backend_.RmsNorm(norm));

  BOLE_RETURN_IF_ERROR(backend_.GatherRows({.rows = input.batch.rows,
                                            .width = width,
                                            .index = input.hidden_row,
                                            .x = input.hidden,
                                            .out = rows_}));
  norm.weight = drafter_.hidden_norm;
  norm.out_column = width;
  return backend_.RmsNorm(norm);
}

absl::Status MtpLayer::Forward(const Input& input, Activation* out) {
  BOLE_RETURN_IF_ERROR(Combine(input));
  BOLE_RETURN_IF_ERROR(backend_.MatMul({.rows = input.batch.rows,
                                        .x = combined_,
                                        .weight = drafter_.projection,
                                        .out = scratch_.residual,
                                        .out_float = nullptr,
                                        .accumulate = false}));
  const LayerContext context{.backend = backend_,
                             .config = config_,
                             .batch = input.batch,
                             .mode = ForwardMode::kVerify,
                             .all_rows = {},
                             .states = {},
                             .factors = {},
                             .pages = memory_.pages,
                             .inverse_frequency = weights_.inverse_frequency,
                             .scratch = scratch_};
  BOLE_RETURN_IF_ERROR(
      RunLayer(drafter_.layer, config_.num_attention_layers(), context));
  return backend_.RmsNorm({.rows = input.batch.rows,
                           .width = config_.hidden_size,
                           .epsilon = config_.rms_norm_eps,
                           .x = scratch_.residual,
                           .weight = drafter_.norm,
                           .out = out,
                           .out_stride = config_.hidden_size,
                           .out_column = 0});
}

}  // namespace bole
