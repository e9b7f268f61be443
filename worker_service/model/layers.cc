#include "worker_service/model/layers.h"

#include <variant>

#include "common/status_macros.h"

namespace bole {
namespace {

absl::Status Norm(const float* weight, const LayerContext& context) {
  const int width = context.config.hidden_size;
  return context.backend.RmsNorm({.rows = context.batch.rows,
                                  .width = width,
                                  .epsilon = context.config.rms_norm_eps,
                                  .x = context.scratch.residual,
                                  .weight = weight,
                                  .out = context.scratch.normed,
                                  .out_stride = width,
                                  .out_column = 0});
}

// out = x W^T.
absl::Status Project(const WeightMatrix* weight, const Activation* x,
                     Activation* out, const LayerContext& context) {
  return context.backend.MatMul({.rows = context.batch.rows,
                                 .x = x,
                                 .weight = weight,
                                 .out = out,
                                 .out_float = nullptr,
                                 .accumulate = false});
}

// residual += x W^T.
absl::Status AddToResidual(const WeightMatrix* weight, const Activation* x,
                           const LayerContext& context) {
  return context.backend.MatMul({.rows = context.batch.rows,
                                 .x = x,
                                 .weight = weight,
                                 .out = context.scratch.residual,
                                 .out_float = nullptr,
                                 .accumulate = true});
}

// From the projection to the gated norm, in scratch.mixed.
absl::Status RunGdnCore(const GdnDecodeLayerParams& params,
                        const LayerContext& context) {
  Backend& backend = context.backend;
  if (context.mode == ForwardMode::kDecode) {
    return backend.GdnDecodeLayer(params);
  }
  if (context.mode == ForwardMode::kVerify) {
    return backend.GdnVerifyLayer(
        {.conv = params.conv, .core = params.core, .norm = params.norm});
  }
  BOLE_RETURN_IF_ERROR(backend.GdnConv(params.conv));
  BOLE_RETURN_IF_ERROR(backend.GdnPrefill(params.core));
  BOLE_RETURN_IF_ERROR(backend.GdnCommitWindows(params.windows));
  return backend.GdnGatedNorm(params.norm);
}

}  // namespace

absl::Status RunGdn(const GdnWeights& weights, int layer,
                    const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  const GdnShape shape = GdnShapeOf(context.config);
  BOLE_RETURN_IF_ERROR(
      Project(weights.projection, scratch.normed, scratch.projected, context));
  BOLE_RETURN_IF_ERROR(
      RunGdnCore({.conv = {.batch = context.batch,
                           .shape = shape,
                           .states = context.states,
                           .layer = layer,
                           .projected = scratch.projected,
                           .conv_weight = weights.conv,
                           .negative_exp_a = weights.negative_exp_a,
                           .dt_bias = weights.dt_bias,
                           .q = scratch.q,
                           .q_scale = scratch.q_scale,
                           .factors = context.factors},
                  .core = {.batch = context.batch,
                           .shape = shape,
                           .states = context.states,
                           .layer = layer,
                           .q = scratch.q,
                           .q_scale = scratch.q_scale,
                           .factors = context.factors,
                           .solver = context.solver,
                           .out = scratch.mixed},
                  .windows = {.batch = context.batch,
                              .path = context.all_rows,
                              .shape = shape,
                              .states = context.states,
                              .factors = context.factors,
                              .first_layer = layer,
                              .num_layers = 1},
                  .norm = {.rows = context.batch.rows,
                           .shape = shape,
                           .epsilon = context.config.rms_norm_eps,
                           .o = scratch.mixed,
                           .projected = scratch.projected,
                           .weight = weights.norm,
                           .out = scratch.mixed}},
                 context));
  return AddToResidual(weights.output, scratch.mixed, context);
}

absl::Status RunAttention(const AttentionWeights& weights, int layer,
                          const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  const AttentionShape shape = AttentionShapeOf(context.config);
  BOLE_RETURN_IF_ERROR(
      Project(weights.projection, scratch.normed, scratch.projected, context));
  BOLE_RETURN_IF_ERROR(context.backend.PrepareQkv(
      {.batch = context.batch,
       .shape = shape,
       .pages = context.pages,
       .layer = layer,
       .epsilon = context.config.rms_norm_eps,
       .projected = scratch.projected,
       .q_norm = weights.q_norm,
       .k_norm = weights.k_norm,
       .inverse_frequency = context.inverse_frequency,
       .rotary_scale = RotaryScale(context.config.rope),
       .q = scratch.q}));
  BOLE_RETURN_IF_ERROR(context.backend.Attend({.batch = context.batch,
                                               .shape = shape,
                                               .pages = context.pages,
                                               .layer = layer,
                                               .q = scratch.q,
                                               .projected = scratch.projected,
                                               .out = scratch.mixed}));
  return AddToResidual(weights.output, scratch.mixed, context);
}

absl::Status RunFfn(const DenseFfnWeights& weights,
                    const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  BOLE_RETURN_IF_ERROR(
      Project(weights.gate_up, scratch.normed, scratch.gate_up, context));
  BOLE_RETURN_IF_ERROR(context.backend.SiluMul({.rows = context.batch.rows,
                                                .width = weights.down->columns,
                                                .gate_up = scratch.gate_up,
                                                .out = scratch.inner}));
  return AddToResidual(weights.down, scratch.inner, context);
}

absl::Status RunFfn(const MoeFfnWeights& weights, const LayerContext& context) {
  return context.backend.Moe(
      {.rows = context.batch.rows,
       .experts_per_token = context.config.moe->experts_per_token,
       .x = context.scratch.normed,
       .router = weights.router,
       .gate_up = weights.gate_up,
       .down = weights.down,
       .shared_gate = weights.shared_gate,
       .shared_gate_up = weights.shared_gate_up,
       .shared_down = weights.shared_down,
       .out = context.scratch.residual});
}

absl::Status RunLayer(const LayerWeights& weights, int memory_layer,
                      const LayerContext& context) {
  BOLE_RETURN_IF_ERROR(Norm(weights.input_norm, context));
  if (const auto* gdn = std::get_if<GdnWeights>(&weights.mixer)) {
    BOLE_RETURN_IF_ERROR(RunGdn(*gdn, memory_layer, context));
  } else {
    BOLE_RETURN_IF_ERROR(RunAttention(std::get<AttentionWeights>(weights.mixer),
                                      memory_layer, context));
  }
  BOLE_RETURN_IF_ERROR(Norm(weights.post_attention_norm, context));
  return std::visit([&](const auto& ffn) { return RunFfn(ffn, context); },
                    weights.ffn);
}

}  // namespace bole
