#include "worker_service/model/layers.h"

#include <cstddef>
#include <optional>
#include <variant>

#include "common/status_macros.h"

namespace bole {
namespace {

RmsNormParams NormOf(const float* weight, const LayerContext& context) {
  const int width = context.config.hidden_size;
  return {.rows = context.batch.rows,
          .width = width,
          .epsilon = context.config.rms_norm_eps,
          .x = context.scratch.residual,
          .weight = weight,
          .out = context.scratch.normed,
          .out_stride = width,
          .out_column = 0};
}

// out = normed W^T.
MatMulParams Projection(const WeightMatrix* weight, Activation* out,
                        const LayerContext& context) {
  return {.rows = context.batch.rows,
          .x = context.scratch.normed,
          .weight = weight,
          .out = out,
          .out_float = nullptr,
          .accumulate = false};
}

// residual += x W^T.
MatMulParams Addition(const WeightMatrix* weight, const Activation* x,
                      const LayerContext& context) {
  return {.rows = context.batch.rows,
          .x = x,
          .weight = weight,
          .out = context.scratch.residual,
          .out_float = nullptr,
          .accumulate = true};
}

MatMulParams MixerProjection(const LayerWeights& layer,
                             const LayerContext& context) {
  const WeightMatrix* weight = std::visit(
      [](const auto& mixer) { return mixer.projection; }, layer.mixer);
  return Projection(weight, context.scratch.projected, context);
}

MatMulParams MixerAddition(const LayerWeights& layer,
                           const LayerContext& context) {
  const WeightMatrix* weight =
      std::visit([](const auto& mixer) { return mixer.output; }, layer.mixer);
  return Addition(weight, context.scratch.mixed, context);
}

// From the residual stream to the mixer's projection.
absl::Status EnterMixer(const LayerWeights& layer,
                        const LayerContext& context) {
  BOLE_RETURN_IF_ERROR(
      context.backend.RmsNorm(NormOf(layer.input_norm, context)));
  return context.backend.MatMul(MixerProjection(layer, context));
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

// The mixers, from scratch.projected to scratch.mixed.
absl::Status RunMixer(const GdnWeights& weights, int layer,
                      const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  const GdnShape shape = GdnShapeOf(context.config);
  return RunGdnCore({.conv = {.batch = context.batch,
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
                    context);
}

absl::Status RunMixer(const AttentionWeights& weights, int layer,
                      const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  const AttentionShape shape = AttentionShapeOf(context.config);
  const AttentionDecodeParams params = {
      .qkv = {.batch = context.batch,
              .shape = shape,
              .pages = context.pages,
              .layer = layer,
              .epsilon = context.config.rms_norm_eps,
              .projected = scratch.projected,
              .q_norm = weights.q_norm,
              .k_norm = weights.k_norm,
              .inverse_frequency = context.inverse_frequency,
              .rotary_scale = RotaryScale(context.config.rope),
              .q = scratch.q},
      .attend = {.batch = context.batch,
                 .shape = shape,
                 .pages = context.pages,
                 .layer = layer,
                 .q = scratch.q,
                 .projected = scratch.projected,
                 .out = scratch.mixed}};
  if (context.mode == ForwardMode::kDecode) {
    return context.backend.AttentionDecode(params);
  }
  BOLE_RETURN_IF_ERROR(context.backend.PrepareQkv(params.qkv));
  return context.backend.Attend(params.attend);
}

// From scratch.mixed of a layer to scratch.projected of the next one, if there
// is one: mixer and FFN are added to the residual stream.
absl::Status RunFfn(const DenseFfnWeights& ffn, const LayerWeights& layer,
                    const LayerWeights* next, const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  Backend& backend = context.backend;
  BOLE_RETURN_IF_ERROR(backend.AddAndProject(
      {.add = MixerAddition(layer, context),
       .norm = NormOf(layer.post_attention_norm, context),
       .project = Projection(ffn.gate_up, scratch.gate_up, context),
       .gate = SiluMulParams{.rows = context.batch.rows,
                             .width = ffn.down->columns,
                             .gate_up = scratch.gate_up,
                             .out = scratch.inner}}));
  const MatMulParams down = Addition(ffn.down, scratch.inner, context);
  if (next == nullptr) return backend.MatMul(down);
  return backend.AddAndProject({.add = down,
                                .norm = NormOf(next->input_norm, context),
                                .project = MixerProjection(*next, context),
                                .gate = std::nullopt});
}

absl::Status RunFfn(const MoeFfnWeights& ffn, const LayerWeights& layer,
                    const LayerWeights* next, const LayerContext& context) {
  Backend& backend = context.backend;
  BOLE_RETURN_IF_ERROR(backend.MatMul(MixerAddition(layer, context)));
  BOLE_RETURN_IF_ERROR(
      backend.RmsNorm(NormOf(layer.post_attention_norm, context)));
  BOLE_RETURN_IF_ERROR(
      backend.Moe({.rows = context.batch.rows,
                   .experts_per_token = context.config.moe->experts_per_token,
                   .x = context.scratch.normed,
                   .router = ffn.router,
                   .gate_up = ffn.gate_up,
                   .down = ffn.down,
                   .shared_gate = ffn.shared_gate,
                   .shared_gate_up = ffn.shared_gate_up,
                   .shared_down = ffn.shared_down,
                   .out = context.scratch.residual}));
  if (next == nullptr) return absl::OkStatus();
  return EnterMixer(*next, context);
}

}  // namespace

absl::Status RunLayers(std::span<const LayerWeights> layers, LayerPlace first,
                       const LayerContext& context) {
  LayerPlace place = first;
  BOLE_RETURN_IF_ERROR(EnterMixer(layers[0], context));
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerWeights& layer = layers[i];
    if (const auto* gdn = std::get_if<GdnWeights>(&layer.mixer)) {
      BOLE_RETURN_IF_ERROR(RunMixer(*gdn, place.linear++, context));
    } else {
      BOLE_RETURN_IF_ERROR(RunMixer(std::get<AttentionWeights>(layer.mixer),
                                    place.attention++, context));
    }
    const LayerWeights* next = i + 1 < layers.size() ? &layers[i + 1] : nullptr;
    BOLE_RETURN_IF_ERROR(std::visit(
        [&](const auto& ffn) { return RunFfn(ffn, layer, next, context); },
        layer.ffn));
  }
  return absl::OkStatus();
}

}  // namespace bole
