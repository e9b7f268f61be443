#include "worker_service/model/layer_context.h"

#include <algorithm>
#include <cstdint>

namespace bole {

GdnShape GdnShapeOf(const ModelConfig& config) {
  return {.key_heads = config.linear_num_key_heads,
          .value_heads = config.linear_num_value_heads,
          .key_dim = config.linear_key_head_dim,
          .value_dim = config.linear_value_head_dim,
          .conv_taps = config.linear_conv_kernel};
}

AttentionShape AttentionShapeOf(const ModelConfig& config) {
  return {.query_heads = config.num_attention_heads,
          .kv_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .rotary_dim = config.rope.rotary_dim};
}

Scratch::Scratch(const ModelConfig& config, int max_rows, int num_ranks,
                 DeviceArrays& arrays)
    : type(arrays.device().activation_type()) {
  const GdnShape gdn = GdnShapeOf(config);
  const AttentionShape attention = AttentionShapeOf(config);
  const int64_t rows = max_rows;
  const int64_t hidden = config.hidden_size;
  const int64_t ffn = config.intermediate_size;
  const auto widest = [&](int of_gdn, int of_attention) {
    return rows * std::max(of_gdn, of_attention);
  };

  residual = arrays.Activations(rows * hidden, "scratch: residual");
  normed = arrays.Activations(rows * hidden, "scratch: normed");
  projected = arrays.Activations(
      widest(gdn.projected_width(), attention.projected_width()),
      "scratch: projected");
  q = arrays.Activations(widest(gdn.key_width(), attention.query_width()),
                         "scratch: q");
  q_scale = arrays.Array<float>(rows * gdn.key_heads, "scratch: q scale");
  mixed = arrays.Activations(widest(gdn.value_width(), attention.query_width()),
                             "scratch: mixed");
  gate_up = arrays.Activations(rows * 2 * ffn, "scratch: gate and up");
  inner = arrays.Activations(rows * ffn, "scratch: inner");
  partial = num_ranks == 1
                ? nullptr
                : arrays.Activations(rows * hidden, "scratch: partial sums");
}

}  // namespace bole
