#include "worker_service/model/layers.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "common/status_macros.h"
#include "kernels/operator_set.h"
#include "worker_service/model/device_arrays.h"

namespace bole {
namespace {

RmsNormParams NormOf(const float* weight, const LayerContext& context) {
  const int width = context.config.hidden_size;
  return {.rows = context.rows,
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
  return {.rows = context.rows,
          .x = context.scratch.normed,
          .weight = weight,
          .out = out,
          .out_float = nullptr,
          .accumulate = false};
}

// residual += x W^T.
MatMulParams Addition(const WeightMatrix* weight, const Activation* x,
                      const LayerContext& context) {
  return {.rows = context.rows,
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

// The scratch of a mixer, from the first row of a part on.
struct PartScratch {
  Activation* projected;
  Activation* q;
  float* q_scale;
  Activation* mixed;
};

// The number of columns of each array.
struct PartWidths {
  int projected;
  int q;
  int q_scale;
  int mixed;
};

PartScratch ScratchOf(const ForwardPart& part, const PartWidths& widths,
                      const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  const int64_t row = part.first_row;
  const auto from = [&](Activation* array, int width) {
    return ElementAt(array, row * width, context.scratch.type);
  };
  return {.projected = from(scratch.projected, widths.projected),
          .q = from(scratch.q, widths.q),
          .q_scale = row == 0 ? scratch.q_scale
                              : scratch.q_scale + row * widths.q_scale,
          .mixed = from(scratch.mixed, widths.mixed)};
}

// Runs everything from the projection to the gated norm, whose result is in
// scratch.mixed.
absl::Status RunGdnCore(const GdnDecodeLayerParams& params, ForwardMode mode,
                        OperatorSet& operators) {
  if (mode == ForwardMode::kDecode) return operators.GdnDecodeLayer(params);
  if (mode == ForwardMode::kVerify) {
    return operators.GdnVerifyLayer(
        {.conv = params.conv, .core = params.core, .norm = params.norm});
  }
  BOLE_RETURN_IF_ERROR(operators.GdnConv(params.conv));
  BOLE_RETURN_IF_ERROR(operators.GdnPrefill(params.core));
  BOLE_RETURN_IF_ERROR(operators.GdnCommitWindows(params.windows));
  return operators.GdnGatedNorm(params.norm);
}

// Run the mixers, from scratch.projected to scratch.mixed, for the rows of a
// part.
absl::Status RunMixer(const GdnWeights& weights, int layer,
                      const ForwardPart& part, const LayerContext& context) {
  const GdnShape shape = GdnShapeOf(context.config);
  const PartScratch scratch = ScratchOf(part,
                                        {.projected = shape.projected_width(),
                                         .q = shape.key_width(),
                                         .q_scale = shape.key_heads,
                                         .mixed = shape.value_width()},
                                        context);
  return RunGdnCore({.conv = {.batch = part.batch,
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
                     .core = {.batch = part.batch,
                              .shape = shape,
                              .states = context.states,
                              .layer = layer,
                              .q = scratch.q,
                              .q_scale = scratch.q_scale,
                              .factors = context.factors,
                              .solver = part.solver,
                              .out = scratch.mixed},
                     .windows = {.batch = part.batch,
                                 .path = part.all_rows,
                                 .shape = shape,
                                 .states = context.states,
                                 .factors = context.factors,
                                 .first_layer = layer,
                                 .num_layers = 1},
                     .norm = {.rows = part.batch.rows,
                              .shape = shape,
                              .epsilon = context.config.rms_norm_eps,
                              .o = scratch.mixed,
                              .projected = scratch.projected,
                              .weight = weights.norm,
                              .out = scratch.mixed}},
                    part.mode, context.operators);
}

absl::Status RunMixer(const AttentionWeights& weights, int layer,
                      const ForwardPart& part, const LayerContext& context) {
  const AttentionShape shape = AttentionShapeOf(context.config);
  const PartScratch scratch = ScratchOf(part,
                                        {.projected = shape.projected_width(),
                                         .q = shape.query_width(),
                                         .q_scale = 0,
                                         .mixed = shape.query_width()},
                                        context);
  const AttentionDecodeParams params = {
      .qkv = {.batch = part.batch,
              .shape = shape,
              .pages = context.pages,
              .layer = layer,
              .first_key = context.first_key,
              .epsilon = context.config.rms_norm_eps,
              .projected = scratch.projected,
              .q_norm = weights.q_norm,
              .k_norm = weights.k_norm,
              .inverse_frequency = context.inverse_frequency,
              .rotary_scale = RotaryScale(context.config.rope),
              .q = scratch.q},
      .attend = {.batch = part.batch,
                 .shape = shape,
                 .pages = context.pages,
                 .layer = layer,
                 .first_key = context.first_key,
                 .q = scratch.q,
                 .projected = scratch.projected,
                 .out = scratch.mixed}};
  if (part.mode == ForwardMode::kDecode) {
    return context.operators.AttentionDecode(params);
  }
  BOLE_RETURN_IF_ERROR(context.operators.PrepareQkv(params.qkv));
  return context.operators.Attend(params.attend);
}

absl::Status RunMixers(const LayerWeights& layer, const LayerPlace& place,
                       const LayerContext& context) {
  const auto* gdn = std::get_if<GdnWeights>(&layer.mixer);
  for (const ForwardPart& part : context.parts) {
    BOLE_RETURN_IF_ERROR(gdn != nullptr
                             ? RunMixer(*gdn, place.linear, part, context)
                             : RunMixer(std::get<AttentionWeights>(layer.mixer),
                                        place.attention, part, context));
  }
  return absl::OkStatus();
}

// What follows a layer: the next layer's norm and projection, or only the final
// norm after the last layer.
struct Successor {
  RmsNormParams norm;
  std::optional<MatMulParams> projection;
};

// Run everything from a layer's scratch.mixed to its successor: mixer and FFN
// are added to the residual stream.
absl::Status RunFfn(const DenseFfnWeights& ffn, const LayerWeights& layer,
                    const Successor& next, const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  OperatorSet& operators = context.operators;
  BOLE_RETURN_IF_ERROR(operators.AddAndProject(
      {.add = MixerAddition(layer, context),
       .norm = NormOf(layer.post_attention_norm, context),
       .project = Projection(ffn.gate_up, scratch.gate_up, context),
       .gate = SiluMulParams{.rows = context.rows,
                             .width = ffn.down->columns,
                             .gate_up = scratch.gate_up,
                             .out = scratch.inner},
       .partial = scratch.partial}));
  const MatMulParams down = Addition(ffn.down, scratch.inner, context);
  if (!next.projection) {
    return operators.AddAndNorm(
        {.add = down, .norm = next.norm, .partial = scratch.partial});
  }
  return operators.AddAndProject({.add = down,
                                  .norm = next.norm,
                                  .project = *next.projection,
                                  .gate = std::nullopt,
                                  .partial = scratch.partial});
}

absl::Status RunFfn(const MoeFfnWeights& ffn, const LayerWeights& layer,
                    const Successor& next, const LayerContext& context) {
  const Scratch& scratch = context.scratch;
  OperatorSet& operators = context.operators;
  BOLE_RETURN_IF_ERROR(
      operators.AddAndNorm({.add = MixerAddition(layer, context),
                            .norm = NormOf(layer.post_attention_norm, context),
                            .partial = scratch.partial}));
  const MoeParams moe = {
      .rows = context.rows,
      .experts_per_token = context.config.moe->experts_per_token,
      .x = scratch.normed,
      .router = ffn.router,
      .gate_up = ffn.gate_up,
      .down = ffn.down,
      .shared_gate = ffn.shared_gate,
      .shared_gate_up = ffn.shared_gate_up,
      .shared_down = ffn.shared_down,
      .out = scratch.residual};
  BOLE_RETURN_IF_ERROR(operators.AddAndNorm(
      {.add = moe, .norm = next.norm, .partial = scratch.partial}));
  return next.projection ? operators.MatMul(*next.projection)
                         : absl::OkStatus();
}

}  // namespace

absl::Status RunLayers(std::span<const LayerWeights> layers, LayerPlace first,
                       const FinalNorm& final_norm,
                       const LayerContext& context) {
  LayerPlace place = first;
  BOLE_RETURN_IF_ERROR(
      context.operators.RmsNorm(NormOf(layers[0].input_norm, context)));
  BOLE_RETURN_IF_ERROR(
      context.operators.MatMul(MixerProjection(layers[0], context)));
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerWeights& layer = layers[i];
    BOLE_RETURN_IF_ERROR(RunMixers(layer, place, context));
    const bool is_linear = std::holds_alternative<GdnWeights>(layer.mixer);
    ++(is_linear ? place.linear : place.attention);
    Successor next = {.norm = NormOf(final_norm.weight, context),
                      .projection = std::nullopt};
    next.norm.out = final_norm.out;
    if (i + 1 < layers.size()) {
      next = {.norm = NormOf(layers[i + 1].input_norm, context),
              .projection = MixerProjection(layers[i + 1], context)};
    }
    BOLE_RETURN_IF_ERROR(std::visit(
        [&](const auto& ffn) { return RunFfn(ffn, layer, next, context); },
        layer.ffn));
  }
  return absl::OkStatus();
}

}  // namespace bole
