#include "worker_service/sequence_memory.h"

#include <cstdint>

#include "common/step.h"
#include "worker_service/model/layer_context.h"

namespace bole {

SequenceMemory::SequenceMemory(const ModelConfig& config, const Size& size,
                               DeviceArrays& arrays) {
  const auto& [num_slots, num_pages, page_size, keeps_hidden] = size;
  const size_t before_states = arrays.total_bytes();
  const GdnShape gdn = GdnShapeOf(config);
  const int64_t state_rows =
      static_cast<int64_t>(num_slots) * config.num_linear_layers();
  states = {
      .state = arrays.Array<float>(
          state_rows * gdn.value_heads * gdn.value_dim * gdn.key_dim,
          "recurrent states"),
      .window = arrays.Activations(
          state_rows * gdn.conv_taps * gdn.conv_width(), "convolution windows"),
      .num_slots = num_slots,
      .num_layers = config.num_linear_layers()};
  counts = {
      .count = arrays.Array<int32_t>(
          static_cast<int64_t>(num_slots) * config.vocab_size, "token counts"),
      .num_slots = num_slots};
  if (keeps_hidden) {
    hidden = arrays.Activations(
        int64_t{num_slots} * kMaxDraftTail * config.hidden_size,
        "hidden vectors for the drafter");
  }
  const size_t before_pages = arrays.total_bytes();
  state_bytes = before_pages - before_states;

  const int kv_layers = config.num_attention_layers() + 1;
  const int64_t kv_elements = static_cast<int64_t>(kv_layers) * num_pages *
                              page_size * AttentionShapeOf(config).kv_width();
  pages = {.k = arrays.Activations(kv_elements, "key pages"),
           .v = arrays.Activations(kv_elements, "value pages"),
           .num_layers = kv_layers,
           .num_pages = num_pages,
           .page_size = page_size};
  page_bytes = arrays.total_bytes() - before_pages;
}

}  // namespace bole
